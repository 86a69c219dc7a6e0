package blob

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/store/fsys"
	"allium/store/meta"
)

// publication is a staged object on its way into the index: its files are
// synced, then renamed into place, then the index has it. Publications that meet
// share the syncs of directories and index: whoever has the slot renames for
// all.
type publication struct {
	root b3.Root
	size int64
	st   *meta.Staging
	done func()

	// Set by whoever holds the slot, read by whoever holds it later.
	fate fate
	err  error
}

// fate says what became of a publication.
type fate uint8

const (
	dropped fate = iota // not published: another put was faster, or err
	moved               // renamed into place
	unmoved             // whole and synced, but could not be uploaded or renamed: may be tried again
)

// maxDeferred is how many deferred large objects, with two open files each,
// wait for a flush; the next put flushes.
const maxDeferred = 64

// Publish makes a staged object, which is complete, visible and durable under
// root, now or by the next Flush. done is called once, when the files are not
// needed any more.
func (o *objects) Publish(ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func()) (isNew bool, err error) {
	p := &publication{root: root, size: size, st: st, done: done}
	if deferred && placeOf(p.st).note == nil && !p.st.Kept {
		return true, o.deferUntilFlush(ctx, p)
	}
	if p.err = o.sync(p); p.err == nil {
		o.upload(ctx, p)
	}
	o.commit([]*publication{p})
	o.end(p)
	return p.fate == moved, p.err
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

// Flush publishes what was deferred, after the flush under way, which may have
// some of it. What cannot be uploaded or renamed stays for the next flush; what cannot be
// synced is lost.
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
			if p.err = o.sync(p); p.err == nil {
				o.upload(ctx, p)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in all
	o.commit(all)
	var again []*publication
	for _, p := range all {
		switch {
		case p.fate == unmoved:
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

// end gives up a publication's files that were not renamed, and its lease.
func (o *objects) end(p *publication) {
	switch {
	case p.fate == moved, p.fate == unmoved && p.st.Kept: // or tried again by the next download
	case p.st.Owned && p.err != nil: // or by the next append
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

// Failure is the sticky error.
func (o *objects) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// sync makes p's bytes durable, once.
func (o *objects) sync(p *publication) error {
	if p.fate == unmoved {
		return nil
	}
	return syncStaged(p.st)
}

// syncStaged makes what was written to st durable. Once that failed it fails
// for good: a sync that succeeds later says nothing of what this one lost.
func syncStaged(st *meta.Staging) error {
	for _, f := range []meta.File{st.Data, st.Outboard} {
		if st.Failed != nil {
			break
		}
		st.Failed = meta.WriteError("sync a file", f.(*stagedFile).f.SyncData())
	}
	return st.Failed
}

// upload puts p into the remote, where there is one.
func (o *objects) upload(ctx context.Context, p *publication) {
	if o.remote == nil {
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
		p.fate, p.err = unmoved, err
	}
}

// commit publishes synced objects, with whatever others are ready.
func (o *objects) commit(mine []*publication) {
	o.mu.Lock()
	o.ready = append(o.ready, mine...)
	o.mu.Unlock()
	o.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-o.slot }()
	o.mu.Lock()
	all := o.ready
	o.ready = nil
	o.mu.Unlock()
	if len(all) > 0 {
		o.place(all)
	}
}

// place renames publications into place and enters them in the index. The slot
// is held.
func (o *objects) place(all []*publication) {
	first := map[b3.Root]*publication{}
	var in []*publication
	for _, p := range all {
		if p.err != nil || first[p.root] != nil {
			continue // or it goes the way of its twin
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
		if p.fate, p.err = o.rename(p); p.fate != moved {
			continue
		}
		in = append(in, p)
	}
	if err := o.enter(in); err != nil {
		for _, p := range in {
			p.err = err
			o.putBack(p)
		}
	} else if o.remote != nil {
		for _, p := range in {
			o.tidy(placeOf(p.st).data, o.objectPath(p.root))
		}
	}
	for _, p := range all {
		if p.err != nil {
			continue
		}
		twin := first[p.root]
		if p.err = twin.err; twin.fate == unmoved {
			p.fate = unmoved
		}
	}
}

// rename moves p's files to their names, the data first: the outboard can be
// made anew from it.
func (o *objects) rename(p *publication) (fate, error) {
	name := o.objectPath(p.root)
	if o.remote == nil { // else the remote has the data
		if err := o.fs.Rename(placeOf(p.st).data, name); err != nil {
			return unmoved, meta.WriteError("rename a file", err)
		}
	}
	if err := o.fs.Rename(placeOf(p.st).outboard, name+outboardSuffix); err != nil {
		if o.remote == nil && o.fs.Rename(name, placeOf(p.st).data) != nil {
			o.tidy(name)
			return dropped, meta.WriteError("rename a file", err)
		}
		return unmoved, meta.WriteError("rename a file", err)
	}
	return moved, nil
}

// putBack undoes rename where the log refused the object and can take it later.
// Where it failed for good, whether the object is in it is not known: the next
// start finds out.
func (o *objects) putBack(p *publication) {
	if o.Failure() != nil || o.index.Failure() != nil || o.log.Failure() != nil {
		return
	}
	name := o.objectPath(p.root)
	whole := o.remote != nil || o.fs.Rename(name, placeOf(p.st).data) == nil
	if whole && o.fs.Rename(name+outboardSuffix, placeOf(p.st).outboard) == nil {
		p.fate = unmoved
		return
	}
	p.fate = dropped
	o.tidy(name, name+outboardSuffix)
}

// enter makes renamed objects durable and visible. Once a directory could not
// be synced, what is on disk is unknown: that is sticky.
func (o *objects) enter(moved []*publication) error {
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
		if placeOf(p.st).note != nil {
			if err := o.downloads.published(p.root); err != nil {
				o.logger.Warn("the note of a download that is whole stays until the next start", "root", p.root, "err", err)
			}
		}
		p.st.Kept, placeOf(p.st).note = false, nil
	}
	return nil
}
