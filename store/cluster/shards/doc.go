// Package shards makes, sends and reads the shards of objects that are kept as an erasure coding
// (protocols/erasure).
//
// Invariants:
//
//   - No byte is given on that was not proved: a group of the object against the object's own tree, whatever the
//     manifest says, and a shard against its address before it is stored or sent.
//   - Encoding and rebuilding are streams. Each of at most maxStreams keeps one window of each shard in RAM. Parity is
//     staged by the store on disk, as its address is known only at the end.
//   - Parts for readers are fetched at most readPermits at once, and each within partTime. A reader of a coded object
//     keeps one window.
//   - A member is asked for a part again only after others, once it failed.
//
// One read, step by step: a peer asks a member for a coded object. The member has one shard of it. [Coder.Open] finds
// the manifest and opens the outboard, which is stored here. The server reads a group: the source finds its data shard
// and gets the part from the store, from a member that proved that shard, or from one that has the whole object. If
// nobody has it, it gets the same part of k other shards and computes it. The reader that the server uses proves the
// group and sends it.
package shards

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/object"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
)

// Objects asks peers for objects and stores objects at them. A [object.Client] implements it.
type Objects interface {
	Get(ctx context.Context, p peer.ID, req object.GetRequest, sink object.Sink) error
	Have(ctx context.Context, p peer.ID, objs []b3.Root) ([]b3.Presence, error)
}

// Deps holds the dependencies of a Coder. All are required.
type Deps struct {
	env.Env

	Self    peer.ID
	Store   *store.Store
	Objects Objects
	// Put stores an object at a member of the cluster.
	Put func(ctx context.Context, to peer.ID, obj b3.Object, meter repair.Meter) error
	// Coding returns the manifest of a coded object and its address, if this node holds a piece of the object.
	Coding func(object b3.Root) (root b3.Root, m *erasure.Manifest, ok bool)
	// Holders returns the members that proved a piece, by the address of the manifest.
	Holders func(manifest b3.Root) []plan.Holder
	// Missed takes note that a reader found no holder of a shard, by the address of the manifest. It waits for nothing.
	Missed  func(manifest b3.Root)
	Members func() []peer.ID // the present members, this node among them
	Filter  policy.Filter    // of objects that are encoded, sent and read
}

// Coder makes, sends and reads shards. Its methods are safe for concurrent use. It starts nothing that outlives a call.
type Coder struct {
	deps    Deps
	m       metrics
	streams *limits.Gate  // encodings and rebuilds
	reads   *limits.Gate  // windows that are fetched for readers
	starts  chan struct{} // bound: 1; has a token while the puts of one stripe's parity are admitted
}

// New returns a Coder.
func New(d Deps) *Coder {
	return &Coder{
		deps: d, m: newMetrics(d.Metrics), starts: make(chan struct{}, 1), // bound: see the field
		streams: d.Limits.NewGate(limits.Spec{
			Name: "coding.streams", Path: "repairs → shards that are made", Policy: "wait",
		}, maxStreams, 256),
		reads: d.Limits.NewGate(limits.Spec{
			Name: "coding.reads", Path: "readers of coded objects → members", Policy: "busy",
		}, readPermits, readsWait),
	}
}
