package store

import (
	"context"
	"fmt"
	"iter"

	"allium/protocols/b3"
	"allium/store/scrub"
)

// Verify reads an object to its end and proves it, damaged ones included: the
// error is corrupt, and the object is marked, when a byte is wrong; a mark that
// proves unfounded is taken back.
func (s *Store) Verify(ctx context.Context, root b3.Root) error {
	head := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(head)
	return s.verify(ctx, root, *head, func(int) error { return s.admission.Alive(ctx) })
}

// verify is Verify with a buffer of one group, and told of all bytes as they are
// read. What did returns ends it.
func (s *Store) verify(ctx context.Context, root b3.Root, buf []byte, did func(n int) error) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	s.leases.Acquire(root)
	o, err := s.openDamaged(root)
	s.leave()
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
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.backend.Mark(o.e, false)
}

// openDamaged is open for objects that are marked corrupt too.
func (s *Store) openDamaged(root b3.Root) (*Object, error) {
	e, ok, err := s.find(root)
	if err != nil {
		return nil, fmt.Errorf("store: verify %s: %w", root, err)
	}
	if !ok {
		return nil, notFound(root)
	}
	return s.openEntry(e)
}

// VerifyAll verifies every object in order of address and yields each with its
// verdict. When the listing itself fails, or ctx ends, the address is zero.
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
