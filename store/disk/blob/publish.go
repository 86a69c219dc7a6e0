package blob

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// publication is a staged object that is being published. Its files are synced and
// renamed into place, and then the object is added to the index. Publications that run
// at the same time share the syncs of directories and log: the one that holds the
// renaming token publishes all that are ready.
type publication struct {
	root b3.Root
	size int64
	st   *meta.Staging
	done func()

	// Set by the holder of the renaming token, read by later holders.
	result publishResult
	err    error
}

// publishResult is the result of a publication.
type publishResult uint8

const (
	notPublished publishResult = iota // another put was faster, or err says why
	moved                             // renamed into place
	retryable                         // whole and synced, but could not be uploaded or renamed
)

// maxDeferred is the maximum number of deferred large objects that wait for a flush, with two open
// files each. The put that reaches it flushes.
const maxDeferred = 64

// Publish makes a complete staged object visible and durable under root. If deferred
// is set, the next Flush may do so instead. Publish calls done once, when the files
// are no longer needed.
func (o *objects) Publish(
	ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func(),
) (isNew bool, err error) {
	p := &publication{root: root, size: size, st: st, done: done}
	if p.err = writeParents(st); p.err != nil { // a deferred publication may not fail for it later
		o.end(p)
		return false, p.err
	}
	if deferred && pathsOf(p.st).note == nil && !p.st.Kept {
		return true, o.deferUntilFlush(ctx, p)
	}
	o.prepare(ctx, p)
	o.commit([]*publication{p})
	o.end(p)
	return p.result == moved, p.err
}

func (o *objects) deferUntilFlush(ctx context.Context, p *publication) error {
	o.mu.Lock()
	o.deferred = append(o.deferred, p)
	full := len(o.deferred) >= maxDeferred
	o.mu.Unlock()
	if full {
		return o.Flush(ctx)
	}
	return o.Failure()
}

// Flush waits for a running flush and then publishes all deferred objects. An object
// that cannot be uploaded or renamed stays for the next flush. An object that cannot
// be synced is lost, which is a sticky error.
func (o *objects) Flush(ctx context.Context) error {
	select {
	case o.flushing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-o.flushing }()
	o.mu.Lock()
	all := o.deferred
	o.deferred = nil
	o.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(4) // so that the syncs share journal commits
	for _, p := range all {
		g.Go(func() error {
			o.prepare(ctx, p)
			return nil
		})
	}
	_ = g.Wait() // the errors are in the publications
	o.commit(all)
	var again []*publication
	for _, p := range all {
		switch {
		case p.result == retryable:
			again = append(again, p)
			continue
		case p.err != nil:
			o.fail(fmt.Errorf("a deferred object was lost: %s: %w; restart the node and put it again", p.root, p.err))
		}
		o.end(p)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deferred = append(o.deferred, again...)
	if o.failed == nil && len(again) > 0 {
		return again[0].err
	}
	return o.failed
}

// end removes the files of a publication, unless they were moved or another try needs
// them, and calls done.
func (o *objects) end(p *publication) {
	switch {
	case p.result == moved:
	case p.result == retryable && p.st.Kept: // the next download tries again
	case p.st.Owned && p.err != nil: // the next append of the upload tries again
	default:
		if err := o.Discard(p.st); err != nil {
			o.logger.Warn("the files of a put stay until the next start", "root", p.root, "err", err)
		}
	}
	p.done()
}

func (o *objects) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		o.failed = err
	}
}

// Failure returns the sticky error, nil if there is none.
func (o *objects) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// writeParents writes the parents that the outboard of st keeps.
func writeParents(st *meta.Staging) error {
	if o, ok := st.Outboard.(*outboardFile); ok {
		return o.flush(1)
	}
	return nil
}

// syncStaged makes the bytes of st durable. A failed sync is sticky: a later sync may
// succeed although this one lost bytes.
func syncStaged(st *meta.Staging) error {
	if err := writeParents(st); err != nil {
		return err // the outboard still has what it could not write
	}
	for _, f := range []meta.File{st.Data, st.Outboard} {
		if st.Failed != nil {
			break
		}
		st.Failed = meta.WriteError("sync a file", f.(interface{ sync() error }).sync())
	}
	return st.Failed
}

// prepare makes p's bytes durable, unless an earlier try did, and puts p into the remote, if there is one.
func (o *objects) prepare(ctx context.Context, p *publication) {
	if p.err = nil; p.result != retryable {
		p.err = syncStaged(p.st)
	}
	if p.err != nil || o.remote == nil {
		return
	}
	old, ok, err := o.index.Get(p.root)
	if err == nil && ok && !old.Corrupt {
		return // another put was faster
	}
	if err == nil {
		err = o.remote.Put(ctx, p.root, p.size, p.st.Pair, ok)
	}
	if err != nil {
		p.result, p.err = retryable, err
	}
}

// commit publishes synced objects, together with others that are ready.
func (o *objects) commit(mine []*publication) {
	o.mu.Lock()
	o.ready = append(o.ready, mine...)
	o.mu.Unlock()
	o.renaming <- struct{}{} // held for a few renames and syncs
	defer func() { <-o.renaming }()
	o.mu.Lock()
	all := o.ready // empty if another holder published mine
	o.ready = nil
	o.mu.Unlock()
	if len(all) > 0 {
		o.publishAll(all)
	}
}

// publishAll renames publications into place and adds them to the log. The caller
// holds the renaming token.
func (o *objects) publishAll(all []*publication) {
	first := map[b3.Root]*publication{}
	var in []*publication
	for _, p := range all {
		if p.err != nil || first[p.root] != nil {
			continue // a duplicate gets the result of the first, below
		}
		first[p.root] = p
		old, ok, err := o.index.Get(p.root)
		if err != nil {
			p.err = err
			continue
		}
		if ok && !old.Corrupt {
			continue // another put was faster
		}
		if p.result, p.err = o.rename(p); p.result != moved {
			continue
		}
		in = append(in, p)
	}
	if err := o.commitRenamed(in); err != nil {
		for _, p := range in {
			p.err = err
			o.undoRename(p)
		}
	} else if o.remote != nil {
		for _, p := range in {
			o.unlinkOrLog(pathsOf(p.st).data, o.objectPath(p.root))
		}
	}
	for _, p := range all {
		if p.err != nil {
			continue
		}
		original := first[p.root]
		if p.err = original.err; original.result == retryable {
			p.result = retryable
		}
	}
}

// rename renames p's files into place. The data is first, because the outboard can be
// computed from it.
func (o *objects) rename(p *publication) (publishResult, error) {
	name := o.objectPath(p.root)
	if o.remote == nil { // else the remote has the data
		if err := o.fs.Rename(pathsOf(p.st).data, name); err != nil {
			return retryable, meta.WriteError("rename a file", err)
		}
	}
	if err := o.fs.Rename(pathsOf(p.st).outboard, name+outboardSuffix); err != nil {
		if o.remote == nil && o.fs.Rename(name, pathsOf(p.st).data) != nil {
			o.unlinkOrLog(name)
			return notPublished, meta.WriteError("rename a file", err)
		}
		return retryable, meta.WriteError("rename a file", err)
	}
	return moved, nil
}

// undoRename undoes rename if the log refused the object but may accept it later. If
// the log has failed, it is unknown whether the log has the object; the next start
// finds out.
func (o *objects) undoRename(p *publication) {
	if o.Failure() != nil || o.index.Failure() != nil || o.log.Failure() != nil {
		return
	}
	name := o.objectPath(p.root)
	whole := o.remote != nil || o.fs.Rename(name, pathsOf(p.st).data) == nil
	if whole && o.fs.Rename(name+outboardSuffix, pathsOf(p.st).outboard) == nil {
		p.result = retryable
		return
	}
	p.result = notPublished
	o.unlinkOrLog(name, name+outboardSuffix)
}

// commitRenamed makes renamed objects durable and visible. If a directory cannot be synced, the state of the disk is
// unknown, so the error is sticky.
func (o *objects) commitRenamed(moved []*publication) error {
	if len(moved) == 0 {
		return nil
	}
	dirs := map[string]struct{}{}
	es := make([]meta.Entry, 0, len(moved))
	for _, p := range moved {
		dirs[o.fs.PathDir(o.objectPath(p.root))] = struct{}{}
		es = append(es, meta.Entry{Root: p.root, Size: p.size})
	}
	for dir := range dirs {
		if err := fsys.SyncDir(o.fs, dir); err != nil {
			o.fail(err)
			return err
		}
	}
	if err := o.log.AddFiles(es); err != nil {
		return err
	}
	for _, p := range moved {
		if pathsOf(p.st).note != nil {
			if err := o.downloads.published(p.root); err != nil {
				o.logger.Warn("the note of a finished download stays until the next start", "root", p.root, "err", err)
			}
		}
		p.st.Kept, pathsOf(p.st).note = false, nil
	}
	return nil
}
