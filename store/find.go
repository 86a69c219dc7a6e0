package store

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// find returns the entry of a visible object. If the caller leases root, the
// object it finds is not removed before the lease ends.
func (s *Store) find(root b3.Root) (meta.Entry, bool, error) {
	if s.leases.Removing(root) {
		return meta.Entry{}, false, nil
	}
	return s.backend.Get(root)
}

// isWhole reports whether root is visible and not known to be damaged.
func (s *Store) isWhole(root b3.Root) (bool, error) {
	e, ok, err := s.backend.Get(root)
	return ok && !e.Corrupt, err
}

// Stat returns the address and the size of a visible object. It returns
// not_found when the object is not stored and corrupt when it is damaged.
func (s *Store) Stat(ctx context.Context, root b3.Root) (Info, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	defer s.admission.Leave()
	e, ok, err := s.find(root)
	switch {
	case err != nil:
		return Info{}, fmt.Errorf("look up %s: %w", root, err)
	case !ok:
		if e, ok = s.restores.find(root); !ok {
			return Info{}, notFound(root)
		}
	case e.Corrupt:
		return Info{}, corrupt(root, "it failed a check before")
	}
	return infoOf(e), nil
}

func infoOf(e meta.Entry) Info { return Info{Root: e.Root, Size: e.Size, Corrupt: e.Corrupt} }

// Has reports for each root, in order, whether the object is stored whole, in
// part, or not at all. An object that is marked corrupt is not whole; one that is
// being restored is. Has does not count as a use.
func (s *Store) Has(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	answers := make([]b3.Presence, len(roots))
	for i, root := range roots {
		e, ok, err := s.find(root)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", root, err)
		}
		if !ok {
			_, ok = s.restores.find(root)
		}
		if ok && !e.Corrupt {
			answers[i] = b3.Complete
		} else if answers[i], err = s.hasPart(root); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// hasPart returns Partial if a part of root is stored.
func (s *Store) hasPart(root b3.Root) (presence b3.Presence, err error) {
	_, ok, err := s.partials.Find(root)
	if err != nil {
		return presence, fmt.Errorf("look up %s: %w", root, err)
	}
	if ok {
		presence = b3.Partial
	}
	return presence, nil
}

// Touch is [Store.Has] that counts as a use of every object that is stored whole. It waits
// for objects that are being restored.
func (s *Store) Touch(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	for _, root := range roots {
		if err := s.restores.wait(ctx, root); err != nil {
			return nil, err
		}
	}
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	found, err := s.findAll(ctx, roots)
	if err != nil {
		return nil, err
	}
	answers := make([]b3.Presence, len(roots))
	for i, root := range roots {
		if !found[i].Root.IsZero() {
			answers[i] = b3.Complete
		} else if answers[i], err = s.hasPart(root); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// Find describes the objects of roots that are stored whole, with one sorted
// look-up. For the other roots, the Root of the Info is zero. Find counts as a
// use: what it finds stays as long as a GC hold that began earlier.
func (s *Store) Find(ctx context.Context, roots []b3.Root) ([]Info, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	return s.findAll(ctx, roots)
}

func (s *Store) findAll(ctx context.Context, roots []b3.Root) ([]Info, error) {
	removing := make([]bool, len(roots))
	for i, root := range roots {
		s.leases.Acquire(root)
		defer s.leases.Release(root)
		removing[i] = s.leases.Removing(root)
	}
	es, err := s.backend.GetAll(roots)
	if err != nil {
		return nil, fmt.Errorf("look up %d addresses: %w", len(roots), err)
	}
	found := make([]Info, len(roots))
	for i, e := range es {
		if e.Root.IsZero() || e.Corrupt || removing[i] {
			continue
		}
		found[i] = Info{Root: e.Root, Size: e.Size}
		if err := s.noteUseOrFlush(ctx, e.Root, e.Added); err != nil {
			return nil, fmt.Errorf("look up %s: %w", e.Root, err)
		}
	}
	return found, nil
}

// List yields the objects in order of address, damaged ones included. It keeps
// one page of [meta.PageSize] objects and no snapshot: an object that is put or
// deleted meanwhile may or may not appear. An error ends the listing.
func (s *Store) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for e, err := range s.entries(ctx) {
			if !yield(infoOf(e), err) {
				return
			}
		}
	}
}

// entries is List of entries.
func (s *Store) entries(ctx context.Context) iter.Seq2[meta.Entry, error] {
	return func(yield func(meta.Entry, error) bool) {
		var from b3.Root
		buf := make([]meta.Entry, 0, meta.PageSize)
		for more := true; more; {
			page, err := s.entryPage(ctx, from, buf)
			if err != nil {
				yield(meta.Entry{}, fmt.Errorf("list objects: %w", err))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if more = len(page) == cap(buf); more {
				from, more = meta.NextRoot(page[len(page)-1].Root)
			}
		}
	}
}

// Prefixed returns the addresses of objects, damaged ones included, that begin with digits: at
// most 64 lower-case hex digits. It returns at most a number of them, in order.
func (s *Store) Prefixed(ctx context.Context, digits string, most int) ([]b3.Root, error) {
	from, err := b3.Parse("b3:" + digits + strings.Repeat("0", max(0, 2*b3.Size-len(digits))))
	if err != nil {
		return nil, err
	}
	page, err := s.entryPage(ctx, from, make([]meta.Entry, 0, min(most, meta.PageSize)))
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	var found []b3.Root
	for _, e := range page {
		if !strings.HasPrefix(e.Root.Hex(), digits) {
			break
		}
		found = append(found, e.Root)
	}
	return found, nil
}

func (s *Store) entryPage(ctx context.Context, from b3.Root, buf []meta.Entry) ([]meta.Entry, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	return s.backend.Entries(from, buf)
}

// UsedOrPinned reports whether an object, damaged or not, was used within the
// given time or is protected by a pin. It returns not_found when the object is
// not stored. It may read the directories below every recursive pin.
func (s *Store) UsedOrPinned(ctx context.Context, root b3.Root, within time.Duration) (bool, error) {
	if used, err := s.UsedWithin(ctx, root, within); err != nil || used {
		return used, err
	}
	pinned, _, err := s.Pinned(ctx, root)
	return pinned, err
}

// UsedWithin reports whether an object, damaged or not, was read or stored within
// the given time. It returns not_found when the object is not stored.
func (s *Store) UsedWithin(ctx context.Context, root b3.Root, within time.Duration) (bool, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer s.admission.Leave()
	e, ok, err := s.find(root)
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", root, err)
	}
	if !ok {
		return false, notFound(root)
	}
	used, err := s.backend.UsedAt(e)
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", root, err)
	}
	return max(used, s.uses.UsedAt(root)) >= meta.SecondOf(time.Now().Add(-within)), nil
}
