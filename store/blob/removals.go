package blob

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/fsys"
	"allium/store/meta"
)

// removals unlink the files of large objects that were removed. A removal leaves a
// key in the index until its files are gone for good, so that a file without an
// entry is either on its way out or nobody's doing: only the first kind is
// unlinked.
type removals struct {
	*dir
	log    Log
	forget chan struct{} // says that there are many removals

	mu       sync.Mutex
	removed  map[b3.Root]uint64  // removals whose files are unlinked, by their numbers
	unlinked map[string]struct{} // directories with removals that may not be durable
}

const (
	forgetEvery = time.Minute
	forgetAt    = 256 // removals
)

func newRemovals(d *dir, log Log) *removals {
	return &removals{
		dir: d, log: log, forget: make(chan struct{}, 1), // bound: one kick
		unlinked: map[string]struct{}{}, removed: map[b3.Root]uint64{},
	}
}

// Unlink removes the files of an object that is not in the index any more. What stays, the
// next start unlinks.
func (r *removals) Unlink(root b3.Root) {
	name := r.objectPath(root)
	number, ok, err := r.index.GoneNumber(root)
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
		default: // it is about to look
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
			r.logger.Warn("removals could not be made durable; it is tried again", "err", err)
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
	return r.log.ForgetGone(removed) // what fails the next start finds
}

// unlinkAll carries out, when the store opens, the removals that the index
// has keys of.
func (r *removals) unlinkAll() error {
	for more := true; more; {
		roots, err := r.index.Gone(meta.PageSize)
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
		if err := batch.DropGone(root); err != nil {
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

// close makes removals durable. Nobody removes any more.
func (r *removals) close() error { return r.syncAll(r.unlinked) }
