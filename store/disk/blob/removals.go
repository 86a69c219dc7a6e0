package blob

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// removals unlink the files of removed large objects. A removal leaves a key in the
// index until its files are durably removed. A file without an entry is unlinked only
// if it has such a key; otherwise it is an orphan.
type removals struct {
	*dir
	log    Log
	forget chan struct{} // wakes forgetLoop before forgetEvery

	mu       sync.Mutex          // lock: leaf
	removed  map[b3.Root]uint64  // numbers of removals whose files are unlinked
	unlinked map[string]struct{} // directories whose removals may not be durable
}

const (
	forgetEvery = time.Minute // interval of Forget
	forgetAt    = 256         // removals that wake forgetLoop
)

func newRemovals(d *dir, log Log) *removals {
	return &removals{
		dir: d, log: log, forget: make(chan struct{}, 1), // bound: one wake-up
		unlinked: map[string]struct{}{}, removed: map[b3.Root]uint64{},
	}
}

// Unlink removes the files of an object that has left the index. If it fails, the next
// start unlinks them.
func (r *removals) Unlink(root b3.Root) {
	name := r.objectPath(root)
	number, ok, err := r.index.FileRemoval(root)
	if err == nil {
		err = errors.Join(r.unlink(name), r.unlink(name+outboardSuffix))
	}
	if err != nil {
		r.logger.Warn("the files of a removed object stay until the next start", "root", root, "err", err)
		return
	}
	r.mu.Lock()
	r.unlinked[r.fs.PathDir(name)] = struct{}{}
	if ok {
		r.removed[root] = number
	}
	many := len(r.removed) >= forgetAt
	r.mu.Unlock()
	if many {
		select {
		case r.forget <- struct{}{}:
		default: // forgetLoop is already woken
		}
	}
}

// forgetLoop makes removals durable and drops their keys, until ctx is done.
func (r *removals) forgetLoop(ctx context.Context) {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.forget:
		}
		if err := r.Forget(); err != nil {
			r.logger.Warn("removals could not be made durable; the store tries again", "err", err)
		}
	}
}

// Forget makes the removals so far durable and drops their keys.
func (r *removals) Forget() error {
	r.mu.Lock()
	removed, dirs := r.removed, r.unlinked
	r.removed, r.unlinked = map[b3.Root]uint64{}, map[string]struct{}{}
	r.mu.Unlock()
	if len(removed) == 0 && len(dirs) == 0 {
		return nil
	}
	if err := r.syncAll(dirs); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		maps.Copy(r.unlinked, dirs)
		maps.Copy(removed, r.removed)
		r.removed = removed
		return err
	}
	return r.log.ForgetRemovals(removed) // if it fails, the next start drops the keys
}

// unlinkAll finishes the removals that have a key in the index, when the store opens.
func (r *removals) unlinkAll() error {
	for more := true; more; {
		roots, err := r.index.FileRemovals.First(meta.PageSize)
		if err != nil {
			return err
		}
		more = len(roots) == meta.PageSize
		if err := r.unlinkPage(roots); err != nil {
			return err
		}
	}
	return nil
}

func (r *removals) unlinkPage(roots []b3.Root) error {
	if len(roots) == 0 {
		return nil
	}
	dirs := map[string]struct{}{}
	batch := r.index.NewBatch()
	for _, root := range roots {
		e, there, err := r.index.Get(root)
		if err != nil {
			return err
		}
		for _, suffix := range []string{"", outboardSuffix} {
			if there && !meta.Small(e.Size) {
				break
			}
			name := r.objectPath(root) + suffix
			switch err := r.fs.Remove(name); {
			case err == nil:
				dirs[r.fs.PathDir(name)] = struct{}{}
			case !errors.Is(err, fs.ErrNotExist):
				return meta.WriteError("remove a file", err)
			}
		}
		if err := batch.DropFileRemoval(root); err != nil {
			return err
		}
	}
	if err := r.syncAll(dirs); err != nil {
		return err
	}
	return batch.Apply(false)
}

// syncAll makes the names in dirs durable.
func (r *removals) syncAll(dirs map[string]struct{}) error {
	for dir := range dirs {
		if err := fsys.SyncDir(r.fs, dir); err != nil {
			return err
		}
	}
	return nil
}

// close makes removals durable. No removal runs any more.
func (r *removals) close() error { return r.syncAll(r.unlinked) }
