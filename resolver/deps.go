package resolver

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/object"
)

// Local is the node's own store, as the resolver needs it. Errors carry an
// outcome of protocols/status.
type Local interface {
	// Open returns a complete object; status.NotFound when it is not here.
	Open(ctx context.Context, root b3.Root) (LocalObject, error)
	// Has reports, for each of at most 1,024 roots, whether it is here, complete.
	Has(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Put stores the object root, whose bytes are p, and does not keep p. It is
	// durable, and visible, after the next Flush at the latest.
	Put(ctx context.Context, root b3.Root, p []byte) error
	// Partial returns the proved size of an object of which a part is here; ok is
	// false when there is none.
	Partial(ctx context.Context, root b3.Root) (size int64, ok bool, err error)
	// Ingest begins to store the object root, whose size is proved, or goes on
	// with what is here of it. The resolver has at most one ingest of a root at a
	// time.
	Ingest(ctx context.Context, root b3.Root, size int64) (Ingest, error)
	// Flush makes everything that was put or committed before it durable.
	Flush(ctx context.Context) error
	// Lease keeps objects, present or still to come, from being deleted until
	// release is called.
	Lease(roots ...b3.Root) (release func())
}

// LocalObject is an open object, or one that is arriving. It stays readable
// until Close.
type LocalObject interface {
	Size() int64
	// Reader reads the object, verified. It is not used after Close.
	Reader() *b3.Reader
	// Failed takes the error of a read, so that the store learns of damage, and
	// returns the one to show.
	Failed(err error) error
	Close() error
}

// Ingest is an object being stored. Commit, Suspend and Abort are called by one
// goroutine, after the last Write; the others by any.
type Ingest interface {
	// Write stores a verified parent or group, in any order and more than once. A
	// group comes after the parents above it.
	Write(p b3.Proved) error
	// Has reports whether group g is here.
	Has(g int64) bool
	// Missing returns the first run of groups in [from, to) that are not here;
	// lo == hi when all are.
	Missing(from, to int64) (lo, hi int64)
	// Held is how many bytes are here.
	Held() int64
	// Wait returns when group g can be read, or with the reason why it never
	// will be: the end of the ingest, or ctx's.
	Wait(ctx context.Context, g int64) error
	// Open returns the object as far as it has arrived. It stays readable after
	// Commit; after Commit Open itself may fail.
	Open() (LocalObject, error)
	// Commit makes the object whole and durable. It fails unless every group was
	// written.
	Commit(ctx context.Context) error
	// Suspend ends the ingest and keeps what arrived for the next one. It does
	// nothing after Commit, Abort or another Suspend.
	Suspend()
	// Abort ends the ingest and forgets what arrived. It does nothing after
	// Commit, Suspend or another Abort.
	Abort(err error)
}

// Provider is a peer that says it has an object.
type Provider struct {
	Addr     peer.AddrInfo
	NotAfter time.Time // when its record expires; zero when unknown
	Origin   Origin    // how it became known; set by the resolver
}

// Origin is how a peer that may have an object became known (SPEC §6).
type Origin string

// The origins, in the order in which they are asked.
const (
	OriginNamed  Origin = "named"  // by the caller
	OriginServed Origin = "peer"   // it served the object, or the directory above it
	OriginGossip Origin = "gossip" // it announced the object, or the directory
	OriginDHT    Origin = "dht"
)

// ProviderFinder is the DHT. It yields providers as they are found, at most
// limit, and returns when ctx ends. Their records are verified.
type ProviderFinder interface {
	FindProviders(ctx context.Context, root b3.Root, limit int) iter.Seq2[Provider, error]
}

// ObjectClient is the client of the object protocol (OAP1.md §9).
type ObjectClient interface {
	Get(ctx context.Context, p peer.ID, req object.GetRequest, sink object.Sink) error
	// Have asks which of at most 1,024 objects p has. The answer is a claim.
	Have(ctx context.Context, p peer.ID, roots []b3.Root) ([]object.Presence, error)
}

// Dialer learns how to reach a peer before the client opens a stream to it.
type Dialer interface {
	AddAddrs(peer.AddrInfo)
}

// Deps are what the resolver works with. Log, Metrics and Limits may be nil.
type Deps struct {
	Local     Local
	Providers ProviderFinder
	// Hints lists who announced an object of late, at most 20, at once and from
	// memory; nil: nobody. Two are asked before the DHT is, whose lookup
	// begins when they are not enough, or do not answer; the others after it.
	Hints   func(root b3.Root) []Provider
	Objects ObjectClient
	Dialer  Dialer
	// Denied says why an object must not be fetched, nor read through the
	// resolver; nil: everything may. It must not block.
	Denied func(root b3.Root) error

	Self peer.ID // never asked; empty when the node has no identity yet

	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *admission.Registry
}
