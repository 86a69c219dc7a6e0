package api

// Node is the whole API.
type Node interface {
	Store
	Finder
	Cluster
	Publisher
	Network
	Packs
	Control
	Examiner
	Overseer

	// AskFirst returns the same node, whose Get, Cat, List, Stat, Files and Fetch ask these
	// peers before others. Each is a peer ID or a multiaddr with /p2p/ID; there are at most
	// MaxAsked. It starts nothing and needs no Close.
	AskFirst(peers []string) (Node, error)
}

// MaxAsked bounds the peers and addresses of AskFirst.
const MaxAsked = 16

// ProgressFunc receives the progress of a request. It must return at once. It may be
// called from any goroutine and at any rate, but not by two at once. A nil ProgressFunc is not called.
type ProgressFunc func(Progress)
