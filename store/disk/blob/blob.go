package blob

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/store/disk/damage"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// Log is the log of the store, which records the objects.
type Log interface {
	// AddFiles adds objects whose files are in place, durably.
	AddFiles(es []meta.Entry) error
	// Adopt adds an object whose file was found, unless it was removed or stored
	// meanwhile. It reports whether it added the object.
	Adopt(e meta.Entry) (bool, error)
	// ForgetRemovals drops the records of removals whose files are durably removed. The
	// values are the numbers of the removals.
	ForgetRemovals(removed map[b3.Root]uint64) error
	// Failure returns the sticky error of the log, nil if there is none.
	Failure() error
}

// Remote has the bytes of objects instead of obj/, and copies of their outboards.
type Remote interface {
	// Put stores a verified object and its outboard. An object with the same name
	// stays, unless replace says that it is damaged, or its size is wrong.
	Put(ctx context.Context, root b3.Root, size int64, p meta.Pair, replace bool) error
	// OpenObject returns an object's bytes, unverified. Each read fetches them.
	OpenObject(root b3.Root, size int64) meta.File
	// OpenOutboard is OpenObject for the outboard of an object of size bytes.
	OpenOutboard(root b3.Root, size int64) meta.File
	// Lacks reports whether root is known to be absent.
	Lacks(ctx context.Context, root b3.Root) bool
}

// Options are the settings and dependencies of Files. All but Remote and Adopted
// must be set.
type Options struct {
	FS     vfs.FS
	Dir    string // the store's directory
	Log    *slog.Logger
	Index  *tables.Index
	Commit Log
	Remote Remote // nil if the bytes are in obj/

	Space      func(need int64) error // returns no_space if need bytes would use the reserve
	Quarantine *damage.Quarantine
	Damage     *damage.List

	Filter  policy.Filter                                       // of orphans
	Adopted func(ctx context.Context, root b3.Root, size int64) // called with adopted orphans
}

// Files are the files of large objects, and of unfinished ones. Its methods are safe
// for concurrent use after Recover.
type Files struct {
	*objects
	*downloads
	*uploads
	*removals
	orphans *orphans
	notes   *notes
	index   *tables.Index
}

// New returns the files of a store. The caller calls Recover before other methods.
func New(o Options) *Files {
	d := &dir{
		fs: o.FS, root: o.Dir, logger: o.Log, index: o.Index, space: o.Space, quarantine: o.Quarantine,
		prefix: fmt.Sprintf("%016x", rand.Uint64()),
	}
	n := &notes{dir: d, syncing: make(chan struct{}, 1)} // bound: one token
	f := &Files{downloads: newDownloads(n), uploads: newUploads(n, o.Commit), notes: n, index: o.Index}
	f.objects = newObjects(d, f.downloads, o.Commit, o.Remote)
	f.removals = newRemovals(d, o.Commit)
	f.orphans = newOrphans(f.objects, o)
	return f
}

// Recover cleans up after the last run: it recovers unfinished files, finishes
// removals, and lists orphans. clean says that the store was closed cleanly.
func (f *Files) Recover(clean bool) error {
	if err := f.recoverParts(clean); err != nil {
		return err
	}
	if err := f.unlinkAll(); err != nil {
		return err
	}
	pending, err := f.index.Orphans.Has()
	if err != nil || clean && !pending {
		return err
	}
	return f.orphans.find()
}

// Serve finishes removals, and adopts orphans once opened is closed, until ctx is
// done.
func (f *Files) Serve(ctx context.Context, opened <-chan struct{}) {
	var both sync.WaitGroup
	both.Go(func() { f.forgetLoop(ctx) })
	both.Go(func() { f.orphans.adoptAll(ctx, opened) })
	both.Wait()
}

// Adopted returns a channel that is closed when all orphans have been looked at.
func (f *Files) Adopted() <-chan struct{} { return f.orphans.done }

// Close makes removals durable. The next start does not look for orphans then.
func (f *Files) Close() error {
	if err := f.notes.close(); err != nil {
		return err
	}
	return f.removals.close()
}
