package partial

import (
	"context"
	"fmt"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Get describes what is here of an object that is not whole: not_found when there is
// nothing, or nothing of a proved size.
func (t *Table) Get(ctx context.Context, root b3.Root) (Record, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return Record{}, err
	}
	defer t.deps.Admission.Leave()
	rec, ok, err := t.Find(root)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("store: look up %s: %w", root, err)
	case !ok:
		return Record{}, notHere(root)
	}
	return rec, nil
}

// Find is Get for a caller whom the store has admitted. ok is false when there is
// nothing.
func (t *Table) Find(root b3.Root) (rec Record, ok bool, err error) {
	if t.objects.Load() == 0 {
		return Record{}, false, nil
	}
	if p := t.hold(root); p != nil {
		defer p.unuse()
		rec, ok := p.record()
		return rec, ok, nil
	}
	if t.deps.Leases.Removing(root) {
		return Record{}, false, nil
	}
	return t.deps.Backend.Partial(root)
}

// record is what a checkpoint would note now; ok is false for nothing.
func (p *object) record() (rec Record, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Record{Root: p.root, Size: p.size, Held: p.held, Used: p.used}, p.proved && p.held > 0 && !p.over
}

// Open opens what is here of an object that is not whole: not_found when there is
// nothing. The caller was admitted, and closes the view.
func (t *Table) Open(ctx context.Context, root b3.Root) (*View, error) {
	if t.objects.Load() == 0 {
		return nil, notHere(root)
	}
	t.deps.Leases.Acquire(root)
	p, err := t.use(ctx, root, -1)
	if err == nil {
		if _, ok := p.record(); ok {
			return &View{p}, nil
		}
		p.unuse()
		err = notHere(root)
	}
	t.deps.Leases.Release(root)
	return nil, err
}

// All yields the objects of which a part is here, in order of address. One of which
// no checkpoint was noted yet is left out: somebody is at it. It holds one page at a
// time and no snapshot. An error ends it.
func (t *Table) All(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var from b3.Root
		buf := make([]Record, 0, meta.PageSize)
		for more := true; more; {
			page, err := t.page(ctx, from, buf)
			if err != nil {
				yield(Record{}, fmt.Errorf("store: list: %w", err))
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

func (t *Table) page(ctx context.Context, from b3.Root, buf []Record) ([]Record, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer t.deps.Admission.Leave()
	page, err := t.deps.Backend.Partials(from, buf)
	for i, rec := range page {
		if p := t.hold(rec.Root); p != nil {
			if now, ok := p.record(); ok {
				page[i] = now
			}
			p.unuse()
		}
	}
	return page, err
}

// Remove removes what is here of an object that is not whole: conflict while it is in
// use or leased, not_found when there is nothing.
func (t *Table) Remove(ctx context.Context, root b3.Root) error {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	defer t.deps.Admission.Leave()
	over, err := t.deps.Leases.Remove(root)
	if err != nil {
		return err
	}
	defer over()
	rec, ok, err := t.deps.Backend.Partial(root)
	if err == nil && !ok {
		return notHere(root)
	}
	if err == nil {
		err = t.deps.Backend.DropPartial(root)
	}
	if err != nil {
		return fmt.Errorf("store: remove what is here of %s: %w", root, err)
	}
	t.objects.Add(-1)
	t.bytes.Add(-rec.Held)
	return nil
}

// Outgrown removes a part of root that nobody needs any more, for the whole object was
// put. One that is in use, or leased, goes when that ends or at the next start.
func (t *Table) Outgrown(ctx context.Context, root b3.Root) {
	if t.objects.Load() == 0 {
		return
	}
	if err := t.Remove(ctx, root); err != nil && status.Of(err) != status.NotFound && status.Of(err) != status.Conflict {
		t.deps.Log.Warn("the store could not clean up; the next start will", "op", "remove a part", "err", err)
	}
}
