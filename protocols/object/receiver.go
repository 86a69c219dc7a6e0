package object

import (
	"context"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/b3"
)

// Offer describes the objects that a peer wants to put.
type Offer struct {
	From  network.Conn
	Objs  []b3.Root // 1 to MaxPut, or to MaxTold
	Sizes []int64   // bytes of each object, as the peer claims
	Many  bool      // small objects that come in one request; each has at most one group
	About []byte    // what the peer says of the objects, which the protocol does not look into; nil: nothing
}

// Bytes returns the sum of the claimed sizes.
func (o *Offer) Bytes() (n int64) {
	for _, size := range o.Sizes {
		n += size
	}
	return n
}

// Receiver decides which puts of peers a [Server] takes, and stores them. Its errors carry
// an outcome. It is safe for concurrent use.
type Receiver interface {
	// Authorize verifies the capability of a put, in its binary form, before anything but the
	// frame that begins the put is read. An empty capability is none. Authorize holds nothing
	// that must be given back; it may wait for a second. Errors are unauthenticated, forbidden
	// and rate_limit.
	Authorize(ctx context.Context, capability []byte, o *Offer) (Intake, error)
}

// Intake stores the objects of one put. One goroutine uses it, and calls Close at the end.
type Intake interface {
	// Ingest begins to store the only object of the put, or goes on where an earlier one
	// stopped. It returns nil if the object is stored, and then as the put asks for it. Errors
	// are busy, quota, denied, no_space and the like.
	Ingest(ctx context.Context) (Ingest, error)
	// Wishes says which of many small objects the peer shall send. An object that is Present is
	// stored as the put asks for it.
	Wishes(ctx context.Context) ([]Wish, error)
	// Take stores small object i. It need not be durable before Commit.
	Take(ctx context.Context, i int, group b3.Proved) error
	// Commit returns when the small objects that were taken are durable. It returns the error
	// of each object in done, in that order. If the offer says something of the objects, it returns the reply for
	// each as well, at most MaxReply bytes.
	Commit(ctx context.Context, done []int) (errs []error, replies [][]byte)
	// Throttle is called after each frame of a put for a repair, with the bytes of its items. The
	// peer may send more when it returns; an error ends the put.
	Throttle(ctx context.Context, bytes int) error
	// Close ends the put. ctx may be done.
	Close(ctx context.Context)
}

// Wish says what a receiver makes of one of many small objects.
type Wish byte

// The values of Wish are part of the wire format (OAP1.md §9).
const (
	Wanted Wish = iota
	Present
	Refused
)

// Ingest stores the proved items of one object as they arrive. The caller ends it with Commit or Suspend.
type Ingest interface {
	// Missing returns the first run of groups [lo, hi) in [from, to) that are not stored. lo
	// equals hi if none is missing.
	Missing(from, to int64) (lo, hi int64)
	// Write stores one item. The parents of a group are written before it.
	Write(item b3.Proved) error
	// Commit returns when the object is durable and stored as the put asks for it.
	Commit(ctx context.Context) error
	// Suspend keeps what arrived, so that a later put goes on there. After Commit it does
	// nothing.
	Suspend()
}
