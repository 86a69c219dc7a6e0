package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/partial"
)

// PartialInfo describes an object of which a part is here.
type PartialInfo struct {
	Root b3.Root
	Size int64     // of the whole object in bytes, proved
	Held int64     // bytes of it that are here
	Used time.Time // last use, in whole minutes
}

// partialInfo is what callers see of r.
func partialInfo(r partial.Record) PartialInfo {
	return PartialInfo{Root: r.Root, Size: r.Size, Held: r.Held, Used: r.Used.Time()}
}

// Partial describes what is here of an object that is not whole: not_found when
// there is nothing, or nothing of a proved size.
func (s *Store) Partial(ctx context.Context, root b3.Root) (PartialInfo, error) {
	if err := s.admit(ctx); err != nil {
		return PartialInfo{}, err
	}
	defer s.leave()
	rec, ok, err := s.partial(root)
	switch {
	case err != nil:
		return PartialInfo{}, fmt.Errorf("store: look up %s: %w", root, err)
	case !ok:
		return PartialInfo{}, noPartial(root)
	}
	return partialInfo(rec), nil
}

// partial looks up what is here of root, in use or not.
func (s *Store) partial(root b3.Root) (partial.Record, bool, error) {
	if s.partials.objects.Load() == 0 {
		return partial.Record{}, false, nil
	}
	if p := s.partials.hold(root); p != nil {
		defer p.unuse()
		rec, ok := p.record()
		return rec, ok, nil
	}
	if s.leases.Removing(root) {
		return partial.Record{}, false, nil
	}
	return s.backend.Partial(root)
}

// record is what a checkpoint would note now; ok is false for nothing.
func (p *partialObject) record() (rec partial.Record, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return partial.Record{Root: p.root, Size: p.size, Held: p.held, Used: p.used}, p.proved && p.held > 0 && !p.over
}

// OpenPartial opens what is here of an object that is not whole, proved again on
// every read: not_found when there is nothing. It sees what arrives meanwhile;
// Covers says what can be read, and a group that is not here is not_found. The
// caller closes it.
func (s *Store) OpenPartial(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if s.partials.objects.Load() == 0 {
		return nil, noPartial(root)
	}
	s.leases.Acquire(root)
	p, err := s.partials.use(ctx, s, root, -1)
	if err == nil {
		if _, ok := p.record(); ok {
			return p.object(), nil
		}
		p.unuse()
		err = noPartial(root)
	}
	s.leases.Release(root)
	return nil, err
}

// Partials yields the objects of which a part is here, in order of address. One
// of which no checkpoint was noted yet is left out: somebody is at it. It holds
// one page at a time and no snapshot. An error ends it.
func (s *Store) Partials(ctx context.Context) iter.Seq2[PartialInfo, error] {
	return func(yield func(PartialInfo, error) bool) {
		for rec, err := range s.partialRecords(ctx) {
			if !yield(partialInfo(rec), err) {
				return
			}
		}
	}
}

func (s *Store) partialRecords(ctx context.Context) iter.Seq2[partial.Record, error] {
	return func(yield func(partial.Record, error) bool) {
		var from b3.Root
		buf := make([]partial.Record, 0, meta.PageSize)
		for more := true; more; {
			page, err := s.partialPage(ctx, from, buf)
			if err != nil {
				yield(partial.Record{}, fmt.Errorf("store: list: %w", err))
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

func (s *Store) partialPage(ctx context.Context, from b3.Root, buf []partial.Record) ([]partial.Record, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	page, err := s.backend.Partials(from, buf)
	for i, rec := range page {
		if p := s.partials.hold(rec.Root); p != nil {
			if now, ok := p.record(); ok {
				page[i] = now
			}
			p.unuse()
		}
	}
	return page, err
}

// RemovePartial removes what is here of an object that is not whole: conflict
// while it is in use or leased, not_found when there is nothing.
func (s *Store) RemovePartial(ctx context.Context, root b3.Root) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	over, err := s.leases.Remove(root)
	if err != nil {
		return err
	}
	defer over()
	rec, ok, err := s.backend.Partial(root)
	if err == nil && !ok {
		return noPartial(root)
	}
	if err == nil {
		err = s.backend.DropPartial(root)
	}
	if err != nil {
		return fmt.Errorf("store: remove what is here of %s: %w", root, err)
	}
	s.partials.objects.Add(-1)
	s.partials.bytes.Add(-rec.Held)
	return nil
}

// outgrown removes a part of root that nobody needs any more, for the whole
// object was put. One that is in use, or leased, goes when that ends or at the
// next start.
func (s *Store) outgrown(ctx context.Context, root b3.Root) {
	if s.partials.objects.Load() == 0 {
		return
	}
	if err := s.RemovePartial(ctx, root); err != nil && status.Of(err) != status.NotFound && status.Of(err) != status.Conflict {
		s.report("remove a part", err)
	}
}
