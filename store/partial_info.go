package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// PartialInfo describes an object of which a part is here.
type PartialInfo struct {
	Root b3.Root
	Size int64     // of the whole object in bytes, proved
	Held int64     // bytes of it that are here
	Used time.Time // last use, in whole minutes
}

func (r partialRecord) info() PartialInfo {
	return PartialInfo{Root: r.root, Size: r.size, Held: r.held, Used: r.used.time()}
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
	return rec.info(), nil
}

// partial looks up what is here of root, in use or not.
func (s *Store) partial(root b3.Root) (partialRecord, bool, error) {
	if s.partials.objects.Load() == 0 {
		return partialRecord{}, false, nil
	}
	if p := s.partials.hold(root); p != nil {
		defer p.unuse()
		rec, ok := p.record()
		return rec, ok, nil
	}
	if s.roots.removing(root) {
		return partialRecord{}, false, nil
	}
	return s.backend.partial(root)
}

// record is what a checkpoint would note now; ok is false for nothing.
func (p *partial) record() (rec partialRecord, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return partialRecord{root: p.root, size: p.size, held: p.held, used: p.used}, p.proved && p.held > 0 && !p.over
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
	s.roots.acquire(root)
	p, err := s.partials.use(ctx, s, root, -1)
	if err == nil {
		if _, ok := p.record(); ok {
			return p.object(), nil
		}
		p.unuse()
		err = noPartial(root)
	}
	s.roots.release(root)
	return nil, err
}

// Partials yields the objects of which a part is here, in order of address. One
// of which no checkpoint was noted yet is left out: somebody is at it. It holds
// one page at a time and no snapshot. An error ends it.
func (s *Store) Partials(ctx context.Context) iter.Seq2[PartialInfo, error] {
	return func(yield func(PartialInfo, error) bool) {
		var from b3.Root
		buf := make([]partialRecord, 0, pageSize)
		for more := true; more; {
			page, err := s.partialPage(ctx, from, buf)
			if err != nil {
				yield(PartialInfo{}, fmt.Errorf("store: list: %w", err))
				return
			}
			for _, rec := range page {
				if !yield(rec.info(), nil) {
					return
				}
			}
			if more = len(page) == cap(buf); more {
				from, more = next(page[len(page)-1].root)
			}
		}
	}
}

func (s *Store) partialPage(ctx context.Context, from b3.Root, buf []partialRecord) ([]partialRecord, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	page, err := s.backend.partials(from, buf)
	for i, rec := range page {
		if p := s.partials.hold(rec.root); p != nil {
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
	over, err := s.roots.remove(root)
	if err != nil {
		return err
	}
	defer over()
	rec, ok, err := s.backend.partial(root)
	if err == nil && !ok {
		return noPartial(root)
	}
	if err == nil {
		err = s.backend.dropPartial(root)
	}
	if err != nil {
		return fmt.Errorf("store: remove what is here of %s: %w", root, err)
	}
	s.partials.objects.Add(-1)
	s.partials.bytes.Add(-rec.held)
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
