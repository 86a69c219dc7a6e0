package partial

import (
	"context"
	"fmt"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Get returns the record of a partial object: not_found when nothing of it is stored, or
// its size is not proved.
func (t *Table) Get(ctx context.Context, root b3.Root) (meta.Partial, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return meta.Partial{}, err
	}
	defer t.deps.Admission.Leave()
	rec, ok, err := t.Find(root)
	switch {
	case err != nil:
		return meta.Partial{}, fmt.Errorf("store: look up %s: %w", root, err)
	case !ok:
		return meta.Partial{}, errNotHere(root)
	}
	return rec, nil
}

// Find is Get for a caller that the store has admitted. ok is false when there is nothing.
func (t *Table) Find(root b3.Root) (rec meta.Partial, ok bool, err error) {
	if t.objects.Load() == 0 {
		return meta.Partial{}, false, nil
	}
	if p := t.join(root); p != nil {
		defer p.release()
		rec, ok := p.record()
		return rec, ok, nil
	}
	if t.deps.Leases.Removing(root) {
		return meta.Partial{}, false, nil
	}
	return t.deps.Backend.Partial(root)
}

// record returns what a checkpoint would save now. ok is false when that is nothing.
func (p *object) record() (rec meta.Partial, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec = meta.Partial{Root: p.root, Size: p.size, Stored: p.stored, Used: p.used}
	return rec, p.sizeProved && p.stored > 0 && !p.ended
}

// Open opens a partial object: not_found when there is none. The store must have admitted
// the caller, who closes the view.
func (t *Table) Open(ctx context.Context, root b3.Root) (*View, error) {
	if t.objects.Load() == 0 {
		return nil, errNotHere(root)
	}
	t.deps.Leases.Acquire(root)
	p, err := t.acquire(ctx, root, -1)
	if err == nil {
		if _, ok := p.record(); ok {
			return &View{p}, nil
		}
		p.release()
		err = errNotHere(root)
	}
	t.deps.Leases.Release(root)
	return nil, err
}

// Progress divides an object into at most n parts of whole groups and returns how much of each is stored, in percent.
// The error is not_found when nothing of it is stored. It reads no bytes of the object.
func Progress(ctx context.Context, t *Table, root b3.Root, n int64) ([]int, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer t.deps.Admission.Leave()
	v, err := t.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	groups := b3.Groups(v.Size())
	n = min(n, groups)
	percent := make([]int, n)
	v.object.mu.Lock()
	defer v.object.mu.Unlock()
	for i := range n {
		from, to := i*groups/n, (i+1)*groups/n
		percent[i] = int(100 * v.object.groups.CountIn(from, to) / (to - from))
	}
	return percent, nil
}

// All yields the partial objects in order of address. It leaves out an object that no
// checkpoint has saved yet, which is in use. It holds one page at a time, so it does not
// see one point in time. An error ends it.
func (t *Table) All(ctx context.Context) iter.Seq2[meta.Partial, error] {
	return func(yield func(meta.Partial, error) bool) {
		var from b3.Root
		buf := make([]meta.Partial, 0, meta.PageSize)
		for more := true; more; {
			page, err := t.page(ctx, from, buf)
			if err != nil {
				yield(meta.Partial{}, fmt.Errorf("store: list: %w", err))
				return
			}
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if more = len(page) == cap(buf); more {
				from, more = meta.NextRoot(page[len(page)-1].Root)
			}
		}
	}
}

// page returns the next page of All, with current figures for the objects in use.
func (t *Table) page(ctx context.Context, from b3.Root, buf []meta.Partial) ([]meta.Partial, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer t.deps.Admission.Leave()
	page, err := t.deps.Backend.Partials(from, buf)
	for i, rec := range page {
		if p := t.join(rec.Root); p != nil {
			if now, ok := p.record(); ok {
				page[i] = now
			}
			p.release()
		}
	}
	return page, err
}

// Remove deletes what is stored of a partial object: conflict while it is in use or leased,
// not_found when there is nothing.
func (t *Table) Remove(ctx context.Context, root b3.Root) error {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	defer t.deps.Admission.Leave()
	end, err := t.deps.Leases.Remove(root)
	if err != nil {
		return err
	}
	defer end()
	rec, ok, err := t.deps.Backend.Partial(root)
	if err == nil && !ok {
		return errNotHere(root)
	}
	if err == nil {
		err = t.deps.Backend.DropPartial(root)
	}
	if err != nil {
		return fmt.Errorf("remove the stored part of %s: %w", root, err)
	}
	t.objects.Add(-1)
	t.bytes.Add(-rec.Stored)
	return nil
}

// DropCompleted deletes a partial object, as the whole object was stored another way. One
// that is in use goes when its ingest ends, or at the next start.
func (t *Table) DropCompleted(ctx context.Context, root b3.Root) {
	if t.objects.Load() == 0 {
		return
	}
	err := t.Remove(ctx, root)
	if err != nil && status.Of(err) != status.NotFound && status.Of(err) != status.Conflict {
		t.deps.Log.Warn("cannot delete a completed download; the next start will", "root", root, "err", err)
	}
}

// dropSaved discards the saved groups of root if root is stored whole. It is called when an ingest has saved groups,
// and when one that was begun apart has made root visible: the later of the two calls discards them.
func (t *Table) dropSaved(root b3.Root) {
	if t.objects.Load() == 0 || t.claim(root, false) != nil {
		return // an ingest that runs ends, and comes here
	}
	defer t.unclaim(root, false)
	if !t.writes.Enter() {
		return
	}
	defer t.writes.Leave()
	if whole, err := t.deps.Whole(root); err != nil || !whole {
		return
	}
	t.deps.Leases.Acquire(root)
	defer t.deps.Leases.Release(root)
	if t.deps.Leases.Removing(root) {
		return // then it is whole no longer
	}
	if p, err := t.settled(t.deps.Admission.Stopping(), root, -1); p != nil && err == nil {
		p.discard()
		p.release()
	}
}
