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

// backend keeps objects and pins. The Store passes it only verified objects. It
// is safe for concurrent use between Open and Close. For one root, the leases
// keep Put, Publish, RemoveAll and Mark from running at the same time; but two
// puts that staged the same object may run Publish at the same time.
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
	// Open opens the backend's files. If it fails, it leaves nothing open. ctx
	// cancels the opening, not the backend.
	Open(ctx context.Context) error
	// Serve runs the backend's goroutines. When ctx is done, it writes what is
	// queued, waits for the goroutines and returns.
	Serve(ctx context.Context)
	// Ready is called when the store is about to be ready.
	Ready()
	// Refused yields an error if the open backend finds that it must stop.
	Refused() <-chan error
	// Close releases everything. It is the last call.
	Close() error
}

// objects are the visible objects of a backend.
type objects interface {
	// Get returns the entry of a visible object.
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	// GetAll returns the entries of visible objects, in the order of roots. An
	// entry whose object is not visible has a zero Root.
	GetAll(roots []b3.Root) ([]meta.Entry, error)
	// Entries appends visible objects to page, in ascending order from root, up to
	// its capacity. A page that is not full is the last one.
	Entries(root b3.Root, page []meta.Entry) ([]meta.Entry, error)
	// Read returns a small object's bytes, unverified.
	Read(e meta.Entry) ([]byte, error)
	// OpenPair opens a large object, unverified. Callers only read the pair.
	OpenPair(e meta.Entry) (meta.Pair, error)
	// File returns the path of the file that has exactly the bytes of a visible object.
	// ok is false if there is none.
	File(e meta.Entry) (path string, ok bool)
	// MoveFile deletes a visible object durably and then calls move with the path of its
	// file, which move may rename. It returns an error of move. It returns unsupported,
	// and deletes nothing, if the object has no file.
	MoveFile(e meta.Entry, move func(path string) error) error
	// Put stores a small object. It returns when the object is visible and
	// durable. A deferred put returns earlier; the next successful Flush makes it
	// so. isNew is false if a whole copy was already stored. Put does not keep p.
	// It calls counted at most once, before it returns, when Totals counts p as
	// pending.
	Put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error)
	// Flush returns nil when every earlier deferred Put and Publish is visible and
	// durable, and otherwise the error that lost some of them.
	Flush(ctx context.Context) error
	// RemoveAll deletes at most 1,024 different visible objects, durably and with
	// one sync. It also works when the disk is too full for a put. It skips entries
	// that are gone or were stored again.
	RemoveAll(ctx context.Context, es []meta.Entry) error
	// Touch notes when objects were last used; a crash may lose the notes. It skips
	// objects that are not stored, and uses that are less than age seconds later
	// than the last use it knows.
	Touch(used map[b3.Root]meta.Second, age meta.Second) error
	// UsedAt returns the last use of e: the time it was added, or touched later.
	UsedAt(e meta.Entry) (meta.Second, error)
	// Mark sets or clears an entry's corrupt flag.
	Mark(e meta.Entry, corrupt bool) error
}

// publisher publishes large objects that partial.Backend staged.
type publisher interface {
	// Publish makes a complete staged object visible and durable under root. With
	// deferred, the next successful Flush does. A failed Publish discards the
	// object. Publish calls done once, when it no longer needs the files and root
	// may be removed.
	Publish(
		ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func(),
	) (isNew bool, err error)
}

// pinKeeper keeps pins.
type pinKeeper interface {
	// SetPins stores pins durably, each in place of a pin with the same root and label. Of
	// the targets of both, that with the higher number stays. After an error some may be set.
	SetPins(pins []meta.Pin) error
	// SetTarget durably sets the target of a pin that is not released, if t replaces the
	// one that it has, and reports whether it did.
	SetTarget(root b3.Root, label string, t meta.Target) (bool, error)
	// DropPin removes a pin durably and reports whether there was one. A pin with a
	// target leaves a released one.
	DropPin(root b3.Root, label string) (bool, error)
	// ForgetPin removes a released pin durably and reports whether there was one.
	ForgetPin(root b3.Root, label string) (bool, error)
	// Pin returns one pin, also a released one.
	Pin(root b3.Root, label string) (p meta.Pin, ok bool, err error)
	// Pins appends pins to page, in ascending order from (root, label), up to its
	// capacity, without released ones. A page that is not full is the last one.
	Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
	// Released is Pins for released pins.
	Released(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
}

// condition reports the state of a backend.
type condition interface {
	// Totals is the backend's count of visible objects.
	Totals() *meta.Totals
	// Usage returns the bytes of the backend's files and RAM, without a scan. It is
	// called only while the store is open.
	Usage() meta.Usage
	// Failure returns the sticky error of writing, nil while writing works.
	Failure() error
	// Damages returns the list of damage. A nil list is empty.
	Damages() *damage.List
	// Away returns why some objects cannot be read for now, nil if all can be read.
	Away() error
}

var _ scrub.StateStore = (*disk.Backend)(nil)
