package b3

import (
	"context"
	"io"
)

// Content gives the verified bytes of one object from any place: RAM, a disk, a
// running transfer or a gateway. One goroutine uses it at a time.
type Content interface {
	// Size returns the object's size in bytes, which is proved.
	Size() int64
	// Copy writes bytes [start, end) to w in order; 0 ≤ start ≤ end ≤ Size. Each
	// write holds at most one chunk group, verified before the write, so the first
	// write does not wait for the last group. w must not retain the bytes. Copy
	// returns an error of w unchanged. It stops when ctx is done.
	Copy(ctx context.Context, w io.Writer, start, end int64) error
	// Close stops background reads for this Content.
	io.Closer
}

// Object is an open object of a store: in RAM, on a disk, or still arriving. The
// store may have only a part of it. It stays readable until Close. Its methods
// are safe for concurrent use.
type Object interface {
	// Size returns the size of the whole object in bytes, which is proved.
	Size() int64
	// Reader returns a Reader of the object. It must not be used after Close.
	Reader() *Reader
	// Failed reports the error of a read to the store, which records the damage.
	// It returns the error to show to the caller of the read.
	Failed(err error) error
	Close() error
}

// Presence says how much of an object a store has. Its values are part of the
// wire format (OAP1.md §9).
type Presence uint8

// The values of Presence.
const (
	Absent Presence = iota
	Complete
	Partial
)

// String returns the lower-case name.
func (p Presence) String() string {
	switch p {
	case Absent:
		return "absent"
	case Complete:
		return "complete"
	case Partial:
		return "partial"
	}
	return "unknown"
}
