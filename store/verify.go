package store

import (
	"context"
	"fmt"
	"iter"

	"allium/protocols/b3"
	"allium/store/scrub"
)

// Verify reads an object to its end and verifies it, even if it is marked
// corrupt. If a byte is wrong, it marks the object and returns corrupt. If the
// object is marked but right, it removes the mark. It waits for an object that is being
// restored.
func (s *Store) Verify(ctx context.Context, root b3.Root) error {
	if err := s.restores.wait(ctx, root); err != nil {
		return err
	}
	head := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(head)
	return s.verify(ctx, root, *head, func(int) error { return s.admission.Alive(ctx) })
}

// verify is Verify with a buffer of at least one group. It calls did with the
// number of bytes after each read; an error of did ends it.
func (s *Store) verify(ctx context.Context, root b3.Root, buf []byte, did func(n int) error) error {
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	s.leases.Acquire(root)
	o, err := s.openDamaged(root)
	s.admission.Leave()
	if err != nil {
		s.leases.Release(root)
		return err
	}
	defer o.Close()
	if err := scrub.Prove(s.hash, o.Root(), o.Size(), o.src, buf, did); err != nil {
		return o.Failed(err)
	}
	if !o.e.Corrupt {
		return nil
	}
	if err := s.admission.Enter(); err != nil {
		return err
	}
	defer s.admission.Leave()
	return s.backend.Mark(o.e, false)
}

// openDamaged opens root whether or not it is marked corrupt. On success the
// object owns the caller's lease.
func (s *Store) openDamaged(root b3.Root) (*Object, error) {
	e, ok, err := s.find(root)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", root, err)
	}
	if !ok {
		return nil, notFound(root)
	}
	return s.openEntry(e)
}

// VerifyAll verifies every object in order of address and yields each with the
// result. If the listing fails or ctx ends, it yields the zero address with the
// error.
func (s *Store) VerifyAll(ctx context.Context) iter.Seq2[b3.Root, error] {
	return func(yield func(b3.Root, error) bool) {
		for e, err := range s.entries(ctx) {
			if err == nil {
				err = s.Verify(ctx, e.Root)
			}
			if ctx.Err() != nil {
				yield(b3.Root{}, ctx.Err())
				return
			}
			if !yield(e.Root, err) {
				return
			}
		}
	}
}
