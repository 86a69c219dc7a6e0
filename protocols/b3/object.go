package b3

import (
	"context"
	"io"
)

// Content is the bytes of one object, verified, wherever they come from: RAM, a
// disk, a transfer under way, or a gateway. It is used by one goroutine at a time.
type Content interface {
	// Size is the object's size in bytes, a proved fact.
	Size() int64
	// Copy writes bytes [start, end), 0 ≤ start ≤ end ≤ Size, to w in order. Each
	// write holds bytes that were verified before it, a chunk group at most, so the
	// first one need not wait for the last; w does not keep them. An error of w is
	// returned as it is. Copy ends when ctx does.
	Copy(ctx context.Context, w io.Writer, start, end int64) error
	io.Closer // ends what reads on for this Content
}

// Object is an open object of a store, whole or in part: in RAM, on a disk, or
// arriving. It stays readable until Close. Its methods are safe for concurrent use.
type Object interface {
	// Size is the size of the whole object in bytes, a proved fact.
	Size() int64
	// Reader reads the object, verified. It is not used after Close.
	Reader() *Reader
	// Failed takes the error of a read, so that the store learns of damage, and
	// returns the one to show.
	Failed(err error) error
	Close() error
}

// Presence says how much of an object a store holds. Its values go over the wire
// (OAP1.md §9).
type Presence uint8

// How much of an object is here.
const (
	Absent Presence = iota
	Complete
	Partial
)

// String is the lower-case name.
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
