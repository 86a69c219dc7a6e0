// Package upkeep keeps the copies that pins ask for: it runs the planner of store/cluster/plan for
// the objects of this node.
//
// Invariants:
//
//   - Memory is bounded: maxObjects objects, maxActive of them active, and the planner's bound for each. An object is
//     active while anything happens to it; then it rests in a plan.Page, in some 60 bytes, until the next challenge is
//     due. Objects past these bounds are counted, and planned when there is room.
//   - A tick looks at no more than maxScan pins and begins no more than maxCalls actions. It waits for
//     no member: up to callLimit are asked at once, each by one goroutine.
//   - Targets are durable in the pins of the store before a member is told that they are known. The proofs of holders
//     are saved soon after a holder is new or gone. After a restart each has the time at which it was made.
//   - Nobody but this node changes its own targets. Its operator removes those of nodes that are gone, on this node
//     alone.
//
// One target, step by step: a person pins an object and asks for three copies. The next tick finds
// the pin, and plan.Moment.Plan returns two sends. Each becomes a job of the queue of repairs. Its worker
// sends the object and tells the receiver the target, now that it has the object and pins it for the
// origin; if nobody waits, it asks before whether the target was removed. The tick after that challenges
// both holders. A small object, its target and the challenge may travel in one request. Each holder runs the same
// from then on.
//
// If the pin asks for shards, the object is coded first, which is a job of that queue as well. From then on the planner
// plans the coding manifest: each holder has it and one shard, and this node the whole object. An object below
// erasure.MinSize gets copies, one more than there are parity shards.
package upkeep

import (
	"context"
	"iter"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
)

// Prover asks members about copies. Its calls keep to the deadline of ctx.
type Prover interface {
	// Challenge has a member prove its copies of objects and returns an answer for each. An error
	// says that it answered nothing.
	Challenge(ctx context.Context, to peer.ID, objs []b3.Root) ([]plan.Response, error)
	// Tell tells a member what this node knows of objects, and returns what it knows of them, in
	// the same order.
	Tell(ctx context.Context, to peer.ID, told []plan.Told) ([]plan.Told, error)
	// Lease asks a member for the lease of this node's copy.
	Lease(ctx context.Context, to peer.ID, root b3.Root) (granted bool, err error)
}

// Coder makes and sends the pieces of coded objects.
type Coder interface {
	// Manifest returns a coding manifest that is stored here. The error is bad_request if the object is none.
	Manifest(ctx context.Context, root b3.Root) (*erasure.Manifest, error)
	// Held returns the piece of a coded object that this node holds, for its cluster or for itself. ok is false if it
	// holds no whole piece.
	Held(ctx context.Context, m *erasure.Manifest) (p plan.Piece, ok bool, err error)
	// Encode codes an object that is stored here whole, and returns the manifest. The parts that the node keeps are
	// durable then, and pinned for the cluster with the target.
	Encode(ctx context.Context, root b3.Root, t meta.Target) (b3.Root, error)
	// Send stores a piece at a member, and the manifest after it. A piece that this node has not got, it makes from
	// those of others. It counts bytes by meter.
	Send(
		ctx context.Context, to peer.ID, manifest b3.Root, m *erasure.Manifest, p plan.Piece, meter repair.Meter,
	) error
}

// Store has the objects of this node and their pins. A store.Store and Below implement it.
type Store interface {
	Stat(ctx context.Context, root b3.Root) (store.Info, error)
	UsedWithin(ctx context.Context, root b3.Root, within time.Duration) (bool, error)
	Pins(ctx context.Context) iter.Seq2[meta.Pin, error]
	RemovedTargets(ctx context.Context) iter.Seq2[meta.Pin, error]
	PinAll(ctx context.Context, pins []store.Pinning) []error
	HasPin(ctx context.Context, root b3.Root, label string) (bool, error)
	Unpin(ctx context.Context, root b3.Root, label string) error
	SetTarget(ctx context.Context, root b3.Root, label string, t meta.Target) (meta.Target, error)
	ForgetTarget(ctx context.Context, root b3.Root, label string) error
}

// Repairs run jobs at the rate of all repairs.
type Repairs interface {
	// Queue takes a job, or returns false if the queue is full.
	Queue(job repair.Job) bool
	// Trimmed counts a copy that was dropped, or could not be.
	Trimmed(err error)
}

// Sent is the outcome of a send of one copy.
type Sent struct {
	Err    error // nil: the copy is durable at the member
	Told   bool  // the member was told the targets, and knows no others
	Proved bool  // it has proved the copy since
}

// Deps holds the dependencies of a Service. All but Records are required.
type Deps struct {
	env.Env

	Self plan.ID           // this node
	View func() *plan.View // the members as of now; making one takes a while
	// Draining returns since when this node hands its copies over, the zero time if it does not.
	Draining func() time.Time
	Store    Store
	Prover   Prover
	Repairs  Repairs
	Coder    Coder
	// Coded takes note that this node holds a piece of an object, which it can serve from now on. It does not block.
	Coded func(object b3.Root)
	// Send sends copies to a member, with the targets if it may know them: of one object, or of up to plan.MaxSent
	// objects of at most b3.GroupSize bytes each. It counts bytes by meter. It returns the outcome of each object, or
	// one error for all.
	Send func(ctx context.Context, to peer.ID, copies []plan.Told, meter repair.Meter) ([]Sent, error)
	// Dropping records that this node is about to drop its copy of an object. If it returns an error, the copy
	// stays; else ended is called with the result.
	Dropping func(ctx context.Context, root b3.Root) (ended func(error), err error)
	// Records keep over a restart what holders proved; nil: nothing does.
	Records ds.Datastore
	// Changed is told what each whole tick found that differs from the one before. It does not wait.
	Changed func(Change)
	// Below yields the objects below a directory that are stored.
	Below func(ctx context.Context, root b3.Root) iter.Seq2[b3.Root, error]
}
