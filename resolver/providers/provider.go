package providers

import (
	"context"
	"iter"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/object"
	"allium/protocols/record"
)

// Sources names peers that may have an object, beside those that discovery finds.
type Sources struct {
	// Peers are asked first. A connected peer needs no addresses.
	Peers []peer.AddrInfo
	// Via is a directory that contains the object, or zero. Its providers are
	// asked before those of the object.
	Via b3.Root
	// Inner says that the object is inside a directory whose providers the caller asks itself.
	Inner bool
}

// Finder is the DHT. FindProviders yields at most opt.Limit providers as they are
// found and returns when ctx ends. It has verified their records.
type Finder interface {
	FindProviders(ctx context.Context, root b3.Root, opt FindOptions) iter.Seq2[record.Provider, error]
}

// FindOptions say how a [Finder] looks for providers.
type FindOptions struct {
	Limit int           // providers after which the search ends
	Fresh bool          // leave out the records that this node stores; only what peers answer now counts
	Trace *probes.Trace // receives the steps of the search; complete when the search has ended; may be nil

	Inner bool                 // the object is inside a directory that is fetched: only the DHT is asked
	asked map[peer.ID]struct{} // the connected peers that this lookup has asked; its search adds to it
}

// Facts holds the properties of a peer that the node knows without asking it.
type Facts struct {
	Region string        // where the peer says that it is; empty: it does not say
	RTT    time.Duration // 0: not measured
	Addrs  []ma.Multiaddr
}

// Client is the client of the object protocol (OAP1.md §9).
type Client interface {
	Get(ctx context.Context, p peer.ID, req object.GetRequest, sink object.Sink) error
	// Have asks which of at most 1,024 objects p has. The answer is a claim.
	Have(ctx context.Context, p peer.ID, roots []b3.Root) ([]b3.Presence, error)
	// Held asks how much of root p has and which of at most 65,536 groups, a bit for each. The answer is a claim.
	// A peer of an older version answers bad_request.
	Held(ctx context.Context, p peer.ID, root b3.Root, from, to int64) (b3.Presence, []byte, error)
}

// Dialer is told the addresses of a peer before the client opens a stream to it. Its methods do not wait.
type Dialer interface {
	AddAddrs(peer.AddrInfo)
	// Redial lets the next stream to a peer dial it at once, although a dial has failed just now.
	Redial(peer.ID)
}

// Tasks starts goroutines that belong to the resolver's Run.
type Tasks interface { //lockcheck:computes it starts a goroutine, and waits for none
	// Context ends with Run.
	Context() context.Context
	// Go runs f in a goroutine that Run waits for. It returns false, and does
	// not run f, when Run is ending.
	Go(f func()) bool
}
