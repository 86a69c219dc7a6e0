package disk

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"time"

	"allium/protocols/b3"
	"allium/store/fsys"
	"allium/store/meta"
)

// remove unlinks an object that is not in the index any more. What stays, the
// next start unlinks.
func (b *blobs) remove(root b3.Root) {
	name := b.objectPath(root)
	number, ok, err := b.index.GoneNumber(root)
	if err == nil {
		err = errors.Join(b.unlink(name), b.unlink(name+outboardSuffix))
	}
	if err != nil {
		b.logger.Warn("the files of a removed object stay until the next start", "root", root, "err", err)
		return
	}
	b.mu.Lock()
	b.unlinked[b.fs.PathDir(name)] = struct{}{}
	if ok {
		b.removed[root] = number
	}
	many := len(b.removed) >= forgetAt
	b.mu.Unlock()
	if many {
		select {
		case b.forget <- struct{}{}:
		default: // it is about to look
		}
	}
}

// forgetLoop makes removals durable and drops their keys, until ctx is done.
func (b *blobs) forgetLoop(ctx context.Context) {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.forget:
		}
		if err := b.forgetRemoved(); err != nil {
			b.logger.Warn("removals could not be made durable; it is tried again", "err", err)
		}
	}
}

// forgetRemoved makes the removals so far durable and drops their keys.
func (b *blobs) forgetRemoved() error {
	b.mu.Lock()
	removed, dirs := b.removed, b.unlinked
	b.removed, b.unlinked = map[b3.Root]uint64{}, map[string]struct{}{}
	b.mu.Unlock()
	if len(removed) == 0 && len(dirs) == 0 {
		return nil
	}
	for dir := range dirs {
		if err := fsys.SyncDir(b.fs, dir); err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			maps.Copy(b.unlinked, dirs)
			maps.Copy(removed, b.removed)
			b.removed = removed
			return err
		}
	}
	return b.log.ForgetGone(removed) // what fails the next start finds
}

// unlinkRemoved carries out, when the store opens, the removals that the index
// has keys of.
func (b *blobs) unlinkRemoved() error {
	for more := true; more; {
		roots, err := b.index.Gone(meta.PageSize)
		if err != nil {
			return err
		}
		more = len(roots) == meta.PageSize
		if err := b.unlinkAll(roots); err != nil {
			return err
		}
	}
	return nil
}

func (b *blobs) unlinkAll(roots []b3.Root) error {
	if len(roots) == 0 {
		return nil
	}
	dirs := map[string]struct{}{}
	batch := b.index.NewBatch()
	for _, root := range roots {
		e, there, err := b.index.Get(root)
		if err != nil {
			return err
		}
		for _, suffix := range []string{"", outboardSuffix} {
			if there && !meta.Small(e.Size) {
				break
			}
			name := b.objectPath(root) + suffix
			switch err := b.fs.Remove(name); {
			case err == nil:
				dirs[b.fs.PathDir(name)] = struct{}{}
			case !errors.Is(err, fs.ErrNotExist):
				return meta.WriteError("remove a file", err)
			}
		}
		if err := batch.DropGone(root); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := fsys.SyncDir(b.fs, dir); err != nil {
			return err
		}
	}
	return batch.Apply(false)
}

// A large object that is removed leaves a key in the index until its files are
// gone for good, so that a file without an entry is either on its way out or
// nobody's doing: only the first kind is unlinked.
const (
	forgetEvery = time.Minute
	forgetAt    = 256 // removals
)
