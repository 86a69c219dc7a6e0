package store

import (
	"context"
	"fmt"
	"sync"

	"allium/protocols/b3"
)

// Hold keeps what is put, found by a put, answered by Keep or opened from now
// on until release is called: no garbage collection removes it meanwhile. It is
// for work of many objects whose pin comes last. Unlike a lease it costs the
// same for any number of objects. release is idempotent. Holds live in RAM.
func (s *Store) Hold() (release func()) {
	end := s.uses.Hold()
	return sync.OnceFunc(func() {
		end()
		s.gc.Released()
	})
}

// Find describes the objects of roots that are here whole, with one sorted look-up;
// of the others the Root of the Info is zero. It counts as a use: what it finds was
// used now, and stays as long as a Hold that began before.
func (s *Store) Find(ctx context.Context, roots []b3.Root) ([]Info, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.findAll(ctx, roots)
}

func (s *Store) findAll(ctx context.Context, roots []b3.Root) ([]Info, error) {
	there := make([]bool, len(roots))
	for i, root := range roots {
		s.leases.Acquire(root)
		defer s.leases.Release(root)
		there[i] = !s.leases.Removing(root)
	}
	es, err := s.backend.GetAll(roots)
	if err != nil {
		return nil, fmt.Errorf("store: look up %d objects: %w", len(roots), err)
	}
	found := make([]Info, len(roots))
	for i, e := range es {
		if e.Root.IsZero() || e.Corrupt || !there[i] {
			continue
		}
		found[i] = Info{Root: e.Root, Size: e.Size}
		if err := s.usedOrWait(ctx, e.Root, e.Added); err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", e.Root, err)
		}
	}
	return found, nil
}

// Keep is Has that counts as a use, as Find does.
func (s *Store) Keep(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	found, err := s.findAll(ctx, roots)
	if err != nil {
		return nil, err
	}
	answers := make([]b3.Presence, len(roots))
	for i, root := range roots {
		if !found[i].Root.IsZero() {
			answers[i] = b3.Complete
			continue
		}
		if _, ok, err := s.partials.Find(root); err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", root, err)
		} else if ok {
			answers[i] = b3.Partial
		}
	}
	return answers, nil
}
