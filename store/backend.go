package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/disk"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/meta"
	"allium/store/ram/arena"
	"allium/store/scrub"
)

// backend keeps objects and pins. The Store passes it only verified objects. It
// is safe for concurrent use between Open and Close. For one root, the leases
// keep Put, Publish, RemoveAll and Mark from running at the same time; but two
// puts that staged the same object may run Publish at the same time.
type backend interface {
	lifecycle
	meta.Backend
	writer
	files
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

// writer stores objects.
type writer interface {
	// Put stores a small object. It returns when the object is visible and
	// durable. A deferred put returns earlier; the next successful Flush makes it
	// so. isNew is false if a whole copy was already stored. Put does not keep p.
	// It calls counted at most once, before it returns, when Totals counts p as
	// pending.
	Put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error)
	// Flush returns nil when every earlier deferred Put and Publish is visible and
	// durable, and otherwise the error that lost some of them.
	Flush(ctx context.Context) error
	// Touch notes when objects were last used; a crash may lose the notes. It skips
	// objects that are not stored, and uses that are less than age seconds later
	// than the last use it knows.
	Touch(used map[b3.Root]meta.Second, age meta.Second) error
	// File returns the path of the file that has exactly the bytes of a visible object.
	// ok is false if there is none.
	File(e meta.Entry) (path string, ok bool)
	// Place returns where the bytes of a visible object are: a file below the store's directory and
	// the offset there, or a name in the bucket.
	Place(e meta.Entry) (file string, offset int64, inBucket bool)
	// MoveFile deletes a visible object durably and then calls move with the path of its
	// file, which move may rename. It returns an error of move. It returns unsupported,
	// and deletes nothing, if the object has no file.
	MoveFile(e meta.Entry, move func(path string) error) error
}

// files is the part of a backend that manages its files. A backend in RAM has none, and only
// its Arena does anything.
type files interface {
	// Damages returns the list of damage. A nil list is empty.
	Damages() *damage.List
	// ReadOnly reports whether the machine lets nothing be written.
	ReadOnly() bool
	// Shed closes files that are open only for speed, and returns how many. The backend is open.
	Shed() int
	// Descriptors returns how often the process was out of file descriptors.
	Descriptors() fsys.Descriptors
	// CheckLog reads every segment, adds what cannot be read to the list of damage, and
	// returns how many it read. It ends when alive returns an error.
	CheckLog(ctx context.Context, alive func(context.Context) error) (segments int, err error)
	// Arena returns the RAM that has the bytes, nil for a backend of files and before Open.
	Arena() *arena.Arena
}

var _ scrub.StateStore = (*disk.Backend)(nil)
