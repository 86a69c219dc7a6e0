package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Delete removes an object, durably. It returns conflict while the object is
// pinned, directly or below a recursive pin. It also returns conflict while the
// object is leased: open, being written, or kept by Lease.
func (s *Store) Delete(ctx context.Context, root b3.Root) error {
	canceled, err := s.moved.Cancel(ctx, root)
	if err != nil {
		return err
	}
	if err = s.remove(ctx, root); canceled && status.Of(err) == status.NotFound {
		return nil
	}
	return err
}

// remove is Delete of an object that is not being restored.
func (s *Store) remove(ctx context.Context, root b3.Root) error {
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	endRemoval, err := s.leases.Remove(root)
	if err != nil {
		return err
	}
	defer endRemoval()
	defer s.gc.BeginRemoval()() // a recursive pin set from here on waits for this removal
	e, err := s.removable(ctx, root)
	if err != nil {
		return err
	}
	if err := s.backend.RemoveAll(ctx, []meta.Entry{e}); err != nil {
		return fmt.Errorf("delete %s: %w", root, err)
	}
	return nil
}

// removable returns the entry of an object that no pin keeps. The caller has begun its
// removal.
func (s *Store) removable(ctx context.Context, root b3.Root) (meta.Entry, error) {
	e, ok, err := s.backend.Get(root)
	if err != nil {
		return e, fmt.Errorf("delete %s: %w", root, err)
	}
	if !ok {
		return e, meta.NotFound(root)
	}
	by, err := s.gc.Holder(ctx, root)
	if err != nil {
		return e, fmt.Errorf("delete %s: %w", root, err)
	}
	if by != nil {
		return e, status.Errorf(status.Conflict, "%s is kept by a pin (%s); remove the pin first", root, by)
	}
	return e, nil
}

// Lease keeps objects from being removed until release is called. The objects
// need not be stored yet. release is idempotent. Leases are counted, kept in
// RAM, and end with the process. Open objects, puts and downloads take their own.
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

// HoldGC keeps garbage collections from removing what is put, found by a put,
// found by Find or Touch, or opened from now on, until release is called. It is
// for work on many objects whose pin comes last. It costs the same for any
// number of objects, unlike a lease. release is idempotent. GC holds are kept in
// RAM.
func (s *Store) HoldGC() (release func()) {
	end := s.uses.Hold()
	return sync.OnceFunc(func() {
		end()
		s.gc.RetryEviction()
	})
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
