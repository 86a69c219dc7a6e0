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

// Delete removes an object, durably. It returns conflict while the object is
// pinned, directly or below a recursive pin. It also returns conflict while the
// object is leased: open, being written, or kept by Lease.
func (s *Store) Delete(ctx context.Context, root b3.Root) error {
	canceled, err := s.restores.cancel(ctx, root)
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
		return e, notFound(root)
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

// MoveOut takes the object's file out of the store instead of copying it. It calls move
// with the path of the file, which has exactly the object's bytes, unverified. move
// renames the file and returns nil, or leaves it and returns an error, which MoveOut
// returns. Then MoveOut removes the object, durably; an open object can be read on.
//
// MoveOut returns unsupported, before move, for an object without a file of its own: a
// small one, or one in RAM or in a bucket. It returns conflict while a pin keeps the
// object or anybody else uses it. If only the removal fails, MoveOut logs that: the
// object is then found to be damaged, and the next put replaces it.
func (o *Object) MoveOut(ctx context.Context, move func(path string) error) error {
	return o.giveAway(ctx, func(e meta.Entry, path string) error {
		if err := move(path); err != nil {
			return err
		}
		o.s.logCleanup("remove an object that was moved out", o.s.backend.RemoveAll(ctx, []meta.Entry{e}))
		return nil
	})
}

// giveAway calls give with the entry and the file of an object that nothing else keeps or
// uses. Nobody opens the object meanwhile.
func (o *Object) giveAway(ctx context.Context, give func(e meta.Entry, path string) error) error {
	s, root := o.s, o.e.Root
	if o.part != nil || o.moved != nil {
		return status.Errorf(status.Unsupported, "%s is not whole in the store", root)
	}
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	endRemoval, err := s.leases.RemoveLeased(root)
	if err != nil {
		return err
	}
	defer endRemoval()
	defer s.gc.BeginRemoval()()
	e, err := s.removable(ctx, root)
	if err != nil {
		return err
	}
	if e.Corrupt {
		return corrupt(root, "it failed a check before")
	}
	path, ok := s.backend.File(e)
	if !ok {
		return meta.NoFile(root)
	}
	return give(e, path)
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
