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
	begun := s.touches.hold()
	return sync.OnceFunc(func() {
		s.touches.unhold(begun)
		s.gc.Released()
	})
}

// Keep is Has that counts as a use: what it says is here was used now, and stays
// as long as a Hold that began before.
func (s *Store) Keep(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	answers := make([]b3.Presence, len(roots))
	for i, root := range roots {
		var err error
		if answers[i], err = s.keep(ctx, root); err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", root, err)
		}
	}
	return answers, nil
}

func (s *Store) keep(ctx context.Context, root b3.Root) (b3.Presence, error) {
	s.leases.Acquire(root)
	defer s.leases.Release(root)
	e, ok, err := s.find(root)
	if err == nil && ok && !e.Corrupt {
		return b3.Complete, s.usedOrWait(ctx, root, e.Added)
	}
	if err == nil {
		_, ok, err = s.partials.Find(root)
	}
	if err != nil || !ok {
		return b3.Absent, err
	}
	return b3.Partial, nil
}
