package disk

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

// publish makes p visible and durable, now or by the next flush.
func (b *blobs) publish(ctx context.Context, p *publication, deferred bool) (isNew bool, err error) {
	if deferred && placeOf(p.st).note == nil && !p.st.Kept {
		return true, b.deferUntilFlush(ctx, p)
	}
	if p.err = b.sync(p); p.err == nil {
		b.upload(ctx, p)
	}
	b.commit([]*publication{p})
	b.end(p)
	return p.fate == moved, p.err
}

func (b *blobs) deferUntilFlush(ctx context.Context, p *publication) error {
	b.mu.Lock()
	b.deferred = append(b.deferred, p)
	full := len(b.deferred) >= maxDeferred
	b.mu.Unlock()
	if full {
		return b.flush(ctx)
	}
	return b.failure()
}

// flush publishes what was deferred, after the flush under way, which may have
// some of it. What cannot be uploaded or renamed stays for the next flush; what cannot be
// synced is lost.
func (b *blobs) flush(ctx context.Context) error {
	select {
	case b.flushing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.flushing }()
	b.mu.Lock()
	all := b.deferred
	b.deferred = nil
	b.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(4) // so that the syncs share journal commits
	for _, p := range all {
		g.Go(func() error {
			if p.err = b.sync(p); p.err == nil {
				b.upload(ctx, p)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in all
	b.commit(all)
	var again []*publication
	for _, p := range all {
		switch {
		case p.fate == unmoved:
			again = append(again, p)
			continue
		case p.err != nil:
			b.fail(fmt.Errorf("a deferred object was lost: %s: %w; restart the node and put it again", p.root, p.err))
		}
		b.end(p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deferred = append(b.deferred, again...)
	if b.failed == nil && len(again) > 0 {
		return again[0].err
	}
	return b.failed
}

// end gives up a publication's files that were not renamed, and its lease.
func (b *blobs) end(p *publication) {
	switch {
	case p.fate == moved, p.fate == unmoved && p.st.Kept: // or tried again by the next download
	case p.st.Owned && p.err != nil: // or by the next append
	default:
		if err := b.discard(p.st); err != nil {
			b.logger.Warn("the files of a put stay until the next start", "root", p.root, "err", err)
		}
	}
	p.done()
}

func (b *blobs) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
}

func (b *blobs) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// sync makes p's bytes durable, once.
func (b *blobs) sync(p *publication) error {
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

// upload puts p into the bucket, where there is one.
func (b *blobs) upload(ctx context.Context, p *publication) {
	if b.cloud == nil {
		return
	}
	old, ok, err := b.index.Get(p.root)
	if err == nil && ok && !old.Corrupt {
		return // another put was faster
	}
	if err == nil {
		err = b.cloud.put(ctx, p.root, p.size, p.st.Pair, ok)
	}
	if err != nil {
		p.fate, p.err = unmoved, err
	}
}

// commit publishes synced objects, with whatever others are ready.
func (b *blobs) commit(mine []*publication) {
	b.mu.Lock()
	b.ready = append(b.ready, mine...)
	b.mu.Unlock()
	b.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-b.slot }()
	b.mu.Lock()
	all := b.ready
	b.ready = nil
	b.mu.Unlock()
	if len(all) > 0 {
		b.place(all)
	}
}

// place renames publications into place and enters them in the index. The slot
// is held.
func (b *blobs) place(all []*publication) {
	first := map[b3.Root]*publication{}
	var in []*publication
	for _, p := range all {
		if p.err != nil || first[p.root] != nil {
			continue // or it goes the way of its twin
		}
		first[p.root] = p
		old, ok, err := b.index.Get(p.root)
		if err != nil {
			p.err = err
			continue
		}
		if ok && !old.Corrupt {
			continue // another put was faster
		}
		if p.fate, p.err = b.rename(p); p.fate != moved {
			continue
		}
		in = append(in, p)
	}
	if err := b.enter(in); err != nil {
		for _, p := range in {
			p.err = err
			b.putBack(p)
		}
	} else if b.cloud != nil {
		for _, p := range in {
			b.tidy(placeOf(p.st).data, b.objectPath(p.root))
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
func (b *blobs) rename(p *publication) (fate, error) {
	name := b.objectPath(p.root)
	if b.cloud == nil { // else the bucket has the data
		if err := b.fs.Rename(placeOf(p.st).data, name); err != nil {
			return unmoved, meta.WriteError("rename a file", err)
		}
	}
	if err := b.fs.Rename(placeOf(p.st).outboard, name+outboardSuffix); err != nil {
		if b.cloud == nil && b.fs.Rename(name, placeOf(p.st).data) != nil {
			b.tidy(name)
			return dropped, meta.WriteError("rename a file", err)
		}
		return unmoved, meta.WriteError("rename a file", err)
	}
	return moved, nil
}

// putBack undoes rename where the log refused the object and can take it later.
// Where it failed for good, whether the object is in it is not known: the next
// start finds out.
func (b *blobs) putBack(p *publication) {
	if b.failure() != nil || b.index.Failure() != nil || b.log.Failure() != nil {
		return
	}
	name := b.objectPath(p.root)
	whole := b.cloud != nil || b.fs.Rename(name, placeOf(p.st).data) == nil
	if whole && b.fs.Rename(name+outboardSuffix, placeOf(p.st).outboard) == nil {
		p.fate = unmoved
		return
	}
	p.fate = dropped
	b.tidy(name, name+outboardSuffix)
}

// enter makes renamed objects durable and visible. Once a directory could not
// be synced, what is on disk is unknown: that is sticky.
func (b *blobs) enter(moved []*publication) error {
	if len(moved) == 0 {
		return nil
	}
	dirs := map[string]struct{}{}
	es := make([]meta.Entry, 0, len(moved))
	for _, p := range moved {
		dirs[b.fs.PathDir(b.objectPath(p.root))] = struct{}{}
		es = append(es, meta.Entry{Root: p.root, Size: p.size})
	}
	for dir := range dirs {
		if err := fsys.SyncDir(b.fs, dir); err != nil {
			b.fail(err)
			return err
		}
	}
	if err := b.log.AddFiles(es); err != nil {
		return err
	}
	for _, p := range moved {
		if placeOf(p.st).note != nil {
			if err := b.publishedPart(p.root); err != nil {
				b.logger.Warn("the note of a download that is whole stays until the next start", "root", p.root, "err", err)
			}
		}
		p.st.Kept, placeOf(p.st).note = false, nil
	}
	return nil
}
