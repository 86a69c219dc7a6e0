package blob

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/damage"
	"allium/store/index"
	"allium/store/meta"
)

// Log is the log of the store, which says which objects there are.
type Log interface {
	// AddFiles enters objects whose files are in place, durably.
	AddFiles(es []meta.Entry) error
	// Adopt enters an object whose file was found, unless it was removed or stored
	// since. It reports whether it did.
	Adopt(e meta.Entry) (bool, error)
	// ForgetGone drops the notes of removals, by their numbers, whose files are gone
	// for good.
	ForgetGone(removed map[b3.Root]uint64) error
	// Failure is the sticky error of the log.
	Failure() error
}

// Remote has the bytes of objects in place of obj/, and copies of their
// outboards.
type Remote interface {
	// Put stores an object, which is verified, and its outboard. What is there under
	// its name stays, unless replace says that it is damaged, or its size is wrong.
	Put(ctx context.Context, root b3.Root, size int64, p meta.Pair, replace bool) error
	// OpenObject returns an object's bytes, unverified. They are fetched when they are
	// read.
	OpenObject(root b3.Root, size int64) meta.File
	// OpenOutboard is OpenObject for the outboard of an object of size bytes.
	OpenOutboard(root b3.Root, size int64) meta.File
	// Lacks reports whether it is known that root is not there.
	Lacks(ctx context.Context, root b3.Root) bool
}

// Options say what the files work on. All but Remote, Denied and Arrived must be
// set.
type Options struct {
	FS     vfs.FS
	Dir    string // of the store
	Log    *slog.Logger
	Index  *index.Index
	Commit Log
	Remote Remote // nil: the bytes are in obj/

	Space      func(need int64) error // no_space when the disk is about to be full
	Quarantine *damage.Quarantine
	Damage     *damage.List

	Denied  func(root b3.Root) error                            // why an object must not be stored
	Arrived func(ctx context.Context, root b3.Root, size int64) // told of objects that were found
}

// Files are the files of large objects, and of objects on their way in.
type Files struct {
	*objects
	*downloads
	*uploads
	*removals
	orphans *orphans
	notes   *notes
	index   *index.Index
}

// New returns the files of a store, which Recover brings up to what is on disk.
func New(o Options) *Files {
	d := &dir{
		fs: o.FS, root: o.Dir, logger: o.Log, index: o.Index, space: o.Space, aside: o.Quarantine,
		prefix: fmt.Sprintf("%016x", rand.Uint64()),
	}
	n := &notes{dir: d, syncing: make(chan struct{}, 1)} // bound: one token
	f := &Files{downloads: newDownloads(n), uploads: newUploads(n, o.Commit), notes: n, index: o.Index}
	f.objects = newObjects(d, f.downloads, o.Commit, o.Remote)
	f.removals = newRemovals(d, o.Commit)
	f.orphans = newOrphans(f.objects, o)
	return f
}

// Recover takes over what the last run left: it settles unfinished files, ends
// removals, and lists the files that no record names. clean says that the store
// was closed in order.
func (f *Files) Recover(clean bool) error {
	if err := f.settle(clean); err != nil {
		return err
	}
	if err := f.unlinkAll(); err != nil {
		return err
	}
	pending, err := f.index.Orphans()
	if err != nil || clean && !pending {
		return err
	}
	return f.orphans.find()
}

// Serve ends removals, and looks at the files that no record names once opened
// is closed, until ctx is done.
func (f *Files) Serve(ctx context.Context, opened <-chan struct{}) {
	var both sync.WaitGroup
	both.Go(func() { f.forgetLoop(ctx) })
	both.Go(func() { f.orphans.adoptAll(ctx, opened) })
	both.Wait()
}

// Adopted is closed when the files that the start found in obj/, and that no
// record names, were looked at.
func (f *Files) Adopted() <-chan struct{} { return f.orphans.done }

// Close makes removals durable: after an orderly close nobody looks for orphans.
func (f *Files) Close() error {
	if err := f.notes.close(); err != nil {
		return err
	}
	return f.removals.close()
}
