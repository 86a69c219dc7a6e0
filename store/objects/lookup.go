package objects

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/lease"
	"allium/store/meta"
)

// Catalog looks up and lists the visible objects, and does not read them. Its methods are safe
// for concurrent use.
type Catalog struct {
	backend   meta.Objects
	admission *admission.Control
	leases    *lease.Table
}

// Lookup returns the entry of a visible object. If the caller leases root, the
// object it finds is not removed before the lease ends.
func (c *Catalog) Lookup(root b3.Root) (meta.Entry, bool, error) {
	if c.leases.Removing(root) {
		return meta.Entry{}, false, nil
	}
	return c.backend.Get(root)
}

// Whole reports whether root is visible and not known to be damaged.
func (c *Catalog) Whole(root b3.Root) (bool, error) {
	e, ok, err := c.backend.Get(root)
	return ok && !e.Corrupt, err
}

// Stat returns the address and the size of a visible object. It returns
// not_found when the object is not stored and corrupt when it is damaged.
func (s *Objects) Stat(ctx context.Context, root b3.Root) (Info, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	defer s.p.deps.Admission.Leave()
	e, ok, err := s.p.Lookup(root)
	switch {
	case err != nil:
		return Info{}, fmt.Errorf("look up %s: %w", root, err)
	case !ok:
		if e, ok = s.p.deps.Moved.Find(root); !ok {
			return Info{}, meta.NotFound(root)
		}
	case e.Corrupt:
		return Info{}, meta.Corrupt(root, "it failed a check before")
	}
	return infoOf(e), nil
}

func infoOf(e meta.Entry) Info { return Info{Root: e.Root, Size: e.Size, Corrupt: e.Corrupt} }

// Has reports for each root, in order, whether the object is stored whole, in
// part, or not at all. An object that is marked corrupt is not whole; one that is
// being restored is. Has does not count as a use.
func (s *Objects) Has(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.p.deps.Admission.Leave()
	answers := make([]b3.Presence, len(roots))
	for i, root := range roots {
		e, ok, err := s.p.Lookup(root)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", root, err)
		}
		if !ok {
			_, ok = s.p.deps.Moved.Find(root)
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
func (s *Objects) hasPart(root b3.Root) (presence b3.Presence, err error) {
	_, ok, err := s.partials.Find(root)
	if err != nil {
		return presence, fmt.Errorf("look up %s: %w", root, err)
	}
	if ok {
		presence = b3.Partial
	}
	return presence, nil
}

// Touch is [Objects.Has] that counts as a use of every object that is stored whole. It waits
// for objects that are being restored.
func (s *Objects) Touch(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	for _, root := range roots {
		if err := s.p.deps.Moved.Wait(ctx, root); err != nil {
			return nil, err
		}
	}
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.p.deps.Admission.Leave()
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
func (s *Objects) Find(ctx context.Context, roots []b3.Root) ([]Info, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.p.deps.Admission.Leave()
	return s.findAll(ctx, roots)
}

func (s *Objects) findAll(ctx context.Context, roots []b3.Root) ([]Info, error) {
	removing := make([]bool, len(roots))
	for i, root := range roots {
		s.p.deps.Leases.Acquire(root)
		defer s.p.deps.Leases.Release(root)
		removing[i] = s.p.deps.Leases.Removing(root)
	}
	es, err := s.p.deps.Backend.GetAll(roots)
	if err != nil {
		return nil, fmt.Errorf("look up %d addresses: %w", len(roots), err)
	}
	found := make([]Info, len(roots))
	for i, e := range es {
		if e.Root.IsZero() || e.Corrupt || removing[i] {
			continue
		}
		found[i] = Info{Root: e.Root, Size: e.Size}
		if err := s.p.deps.Uses.NoteOrFlush(ctx, e.Root, e.Added); err != nil {
			return nil, fmt.Errorf("look up %s: %w", e.Root, err)
		}
	}
	return found, nil
}

// List yields the objects in order of address, damaged ones included. It keeps
// one page of [meta.PageSize] objects and no snapshot: an object that is put or
// deleted meanwhile may or may not appear. An error ends the listing.
func (s *Objects) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for e, err := range s.p.Entries(ctx) {
			if !yield(infoOf(e), err) {
				return
			}
		}
	}
}

// Entries is [Objects.List] of entries.
func (c *Catalog) Entries(ctx context.Context) iter.Seq2[meta.Entry, error] {
	return func(yield func(meta.Entry, error) bool) {
		var from b3.Root
		buf := make([]meta.Entry, 0, meta.PageSize)
		for more := true; more; {
			page, err := c.Page(ctx, from, buf)
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
func (s *Objects) Prefixed(ctx context.Context, digits string, most int) ([]b3.Root, error) {
	from, err := b3.Parse("b3:" + digits + strings.Repeat("0", max(0, 2*b3.Size-len(digits))))
	if err != nil {
		return nil, err
	}
	page, err := s.p.Page(ctx, from, make([]meta.Entry, 0, min(most, meta.PageSize)))
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

// Page appends visible objects to buf, in ascending order from an address, up to its capacity. A page
// that is not full is the last one.
func (c *Catalog) Page(ctx context.Context, from b3.Root, buf []meta.Entry) ([]meta.Entry, error) {
	if err := c.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer c.admission.Leave()
	return c.backend.Entries(from, buf)
}

// UsedWithin reports whether an object, damaged or not, was read or stored within
// the given time. It returns not_found when the object is not stored.
func (s *Objects) UsedWithin(ctx context.Context, root b3.Root, within time.Duration) (bool, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer s.p.deps.Admission.Leave()
	e, ok, err := s.p.Lookup(root)
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", root, err)
	}
	if !ok {
		return false, meta.NotFound(root)
	}
	used, err := s.p.deps.Backend.UsedAt(e)
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", root, err)
	}
	return max(used, s.p.deps.Uses.UsedAt(root)) >= meta.SecondOf(time.Now().Add(-within)), nil
}
