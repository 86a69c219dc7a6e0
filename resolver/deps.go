package resolver

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/dht/namestore"
	"allium/protocols/record"
	"allium/resolver/names/lookup"
	"allium/resolver/peerindex"
	"allium/resolver/providers"
	"allium/resolver/trace"
	"allium/resolver/transfer"
)

// Local is the node's own store, as the resolver needs it. Errors carry an
// outcome of protocols/status.
type Local interface {
	transfer.Local
	// Put stores the object root, whose bytes are p, and does not keep p. It is
	// durable, and visible, after the next Flush at the latest.
	Put(ctx context.Context, root b3.Root, p []byte) error
	// Flush makes everything that was put or committed before it durable.
	Flush(ctx context.Context) error
	// AwaitDurable waits while an object can be opened and is not durable yet. It returns at once for any other
	// object, stored or not.
	AwaitDurable(ctx context.Context, root b3.Root) error
}

// Types of package transfer that callers of the resolver use.
type (
	// Ingest is an object being stored.
	Ingest = transfer.Ingest
	// OpenOptions say which bytes of an object to read and which peers may have them.
	OpenOptions = transfer.Options
	// Progress is the state of a running fetch.
	Progress = transfer.Progress
	// TransferEvent is the begin or the end of a fetch from peers.
	TransferEvent = transfer.Event
)

// ToEnd is the End of a range that reaches to the end of the object.
const ToEnd = transfer.ToEnd

// Whole returns the options for reading a whole object.
func Whole(from Sources) OpenOptions { return transfer.Whole(from) }

// Types of package providers that callers of the resolver use.
type (
	// Sources names peers that may have an object, beside those that discovery finds.
	Sources = providers.Sources
	// Query says how to find providers, and which ones are wanted.
	Query = providers.Query
	// Answer names the providers of an object.
	Answer = providers.Answer
)

// NameFinder finds the records of names. Seen returns what remembers them.
type NameFinder interface {
	lookup.Finder
	Seen() *namestore.Seen
}

// Deps holds the dependencies of the resolver. Trace, Log, Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Local     Local
	Providers providers.Finder
	// Hints returns the peers that recently announced an object by gossip, at
	// most 20. It reads memory only and must not block. Two of them are asked
	// before the DHT; its lookup begins when these are not enough or do not
	// answer. The other hints are asked after the lookup. Nil means no hints.
	Hints   func(root b3.Root) []record.Provider
	Objects providers.Client
	Dialer  providers.Dialer
	// Names finds the records of names. Nil: names are unsupported.
	Names NameFinder
	// Index asks the peers of Config.Ask. Nil: they are not asked.
	Index  peerindex.Index
	Filter policy.Filter // of names that are resolved and objects that are fetched or read; nil denies nothing
	// Observe gets the begin and the end of every fetch. It must not block. A nil
	// func observes nothing.
	Observe func(TransferEvent)

	// Has reports whether the node's store has an object. It does not count as a use of
	// the object. Nil means that Resolve does not name this node.
	Has func(ctx context.Context, root b3.Root) (bool, error)
	// About returns what the node knows of a peer, or of itself. It must not block. Nil
	// means nothing.
	About func(p peer.ID) providers.Facts
	// Serving returns the connected peers that serve objects, for Config.AskConnected. It must
	// not block. Nil means none.
	Serving func() []peer.ID
	// Connected reports whether a peer is known. Config.Warmup waits for it. It must not
	// block. Nil means always.
	Connected func() bool
	// Joining reports whether no peer is known yet although a seed is. A lookup then
	// waits for the first peer. It must not block. Nil means never.
	Joining func() bool

	Self   peer.ID // this node, which is never asked; empty without an identity
	Region string  // where this node says it is; providers of it rank first

	Trace *trace.Ring // records the lookups; nil records nothing
}
