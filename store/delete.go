package store

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Delete removes an object, durably. It is refused with conflict while the
// object is pinned, directly or below a recursive pin, and while it is leased:
// open, being written, or held by Lease.
func (s *Store) Delete(ctx context.Context, root b3.Root) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	over, err := s.leases.Remove(root)
	if err != nil {
		return err
	}
	defer over()
	e, ok, err := s.backend.Get(root)
	if err != nil {
		return fmt.Errorf("store: delete %s: %w", root, err)
	}
	if !ok {
		return notFound(root)
	}
	defer s.gc.Removing()() // a recursive pin that comes now waits
	by, err := s.gc.Holder(ctx, root)
	if err != nil {
		return fmt.Errorf("store: delete %s: %w", root, err)
	}
	if by != nil {
		return status.Errorf(status.Conflict, "store: %s is kept by a pin (%s); remove the pin first", root, by)
	}
	if err := s.backend.RemoveAll(ctx, []meta.Entry{e}); err != nil {
		return fmt.Errorf("store: delete %s: %w", root, err)
	}
	return nil
}

// Lease keeps objects from being removed, present or not, until release is
// called. release is idempotent. Leases are counted, live in RAM and end with
// the process; open objects, puts and ingests hold one of their own.
func (s *Store) Lease(roots ...b3.Root) (release func()) {
	roots = slices.Clone(roots)
	for _, root := range roots {
		s.leases.Acquire(root)
	}
	return sync.OnceFunc(func() {
		for _, root := range roots {
			s.leases.Release(root)
		}
	})
}
