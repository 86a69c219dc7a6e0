package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/damage"
	"allium/store/disk"
	"allium/store/meta"
	"allium/store/partial"
	"allium/store/scrub"
	"allium/store/upload"
)

// backend keeps objects and pins. It is told only what Store has verified, and
// is safe for concurrent use between Open and Close. Put, Publish, RemoveAll
// and Mark of one root do not run at once (the leases see to that), but for
// Publish of an object that two puts staged.
type backend interface {
	lifecycle
	objects
	publisher
	partial.Backend
	upload.Backend
	pinKeeper
	condition
}

// lifecycle opens and closes a backend.
type lifecycle interface {
	// Open acquires what the backend needs; when it fails nothing is left open.
	// ctx ends the opening alone.
	Open(ctx context.Context) error
	// Serve runs the backend's goroutines. When ctx is done it writes what is
	// queued, joins them and returns.
	Serve(ctx context.Context)
	// Ready is told when the store is about to be ready.
	Ready()
	// Refused has an error when the backend, which is open, finds that it must
	// not go on.
	Refused() <-chan error
	// Close gives everything back. Nothing is called after it.
	Close() error
}

// objects are the visible objects of a backend.
type objects interface {
	// Get returns the entry of a visible object.
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	// GetAll returns the entries of visible objects, in the order of roots. The
	// Root of an entry is zero where there is no object.
	GetAll(roots []b3.Root) ([]meta.Entry, error)
	// Entries appends visible objects from root on, ascending, to page up to
	// its capacity. Fewer means the end.
	Entries(root b3.Root, page []meta.Entry) ([]meta.Entry, error)
	// Read returns a small object's bytes, unverified.
	Read(e meta.Entry) ([]byte, error)
	// OpenPair opens a large object, unverified. The pair is only read.
	OpenPair(e meta.Entry) (meta.Pair, error)
	// Put stores a small object. It returns when the object is visible and
	// durable, or, for a deferred put, when it is sure to be by the next flush
	// that succeeds. isNew is false when a whole copy was there. p is not kept.
	// counted is called at most once, before Put returns, when Totals has begun
	// to count p as pending.
	Put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error)
	// Flush returns when every deferred Put and Publish before it is visible
	// and durable, or the error for which some are not.
	Flush(ctx context.Context) error
	// RemoveAll deletes at most 1,024 visible objects, each given once,
	// durably and with one sync, also where the disk is too full to put. An
	// entry that is gone, or was stored anew, is passed over.
	RemoveAll(ctx context.Context, es []meta.Entry) error
	// Touch notes when objects were used last; a crash may forget it. It passes over
	// those that are not there, and those whose last use it knows and that is less
	// than age seconds earlier.
	Touch(used map[b3.Root]meta.Second, age meta.Second) error
	// UsedAt is the last use of e: when it was added, or touched later.
	UsedAt(e meta.Entry) (meta.Second, error)
	// Mark sets or clears an entry's corrupt flag.
	Mark(e meta.Entry, corrupt bool) error
}

// publisher takes large objects in that partial.Backend staged.
type publisher interface {
	// Publish makes a staged object, which is complete, visible and durable
	// under root; with deferred, by the next flush that succeeds. What cannot be
	// published is discarded. done is called once, when the backend is through
	// with the files and root may be removed.
	Publish(ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func()) (isNew bool, err error)
}

// pinKeeper keeps pins.
type pinKeeper interface {
	// SetPin and DropPin are durable; DropPin reports whether there was one.
	SetPin(p meta.Pin) error
	DropPin(root b3.Root, label string) (bool, error)
	// Pins appends pins from (root, label) on, in order of both, to page up to
	// its capacity. Fewer means the end.
	Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
}

// condition is how a backend is.
type condition interface {
	// Totals is the backend's count of visible objects.
	Totals() *meta.Totals
	// Usage is what the backend knows of its files and RAM, without a scan. It is
	// asked only while the store is open.
	Usage() meta.Usage
	// Failure is the sticky error of the write side, nil when it works.
	Failure() error
	// Damages is the list of damage; nil, which is empty, where there is none.
	Damages() *damage.List
	// Away is why some objects cannot be read for now, nil when all can.
	Away() error
}

var _ scrub.Place = (*disk.Backend)(nil)
