package store

import (
	"context"
	"fmt"
	"iter"

	"allium/protocols/b3"
)

// Verify reads an object to its end and proves it, damaged ones included: the
// error is corrupt, and the object is marked, when a byte is wrong; a mark that
// proves unfounded is taken back.
func (s *Store) Verify(ctx context.Context, root b3.Root) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	s.roots.acquire(root)
	o, err := s.openDamaged(root)
	s.leave()
	if err != nil {
		s.roots.release(root)
		return err
	}
	defer o.Close()
	if err := s.prove(ctx, o); err != nil {
		return o.Failed(err)
	}
	if !o.e.corrupt {
		return nil
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.backend.mark(o.e, false)
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

// prove walks the whole tree of o.
func (s *Store) prove(ctx context.Context, o *Object) error {
	head := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(head)
	w, err := b3.NewWalk(o.Root(), o.Size(), nil)
	if err != nil {
		return err
	}
	for _, more := w.Next(); more; _, more = w.Next() {
		if err := alive(ctx, s.stop); err != nil {
			return err
		}
		if _, err := w.Fill(o.src, *head); err != nil {
			return err
		}
	}
	return nil
}

// VerifyAll verifies every object in order of address and yields each with its
// verdict. When the listing itself fails, or ctx ends, the address is zero.
func (s *Store) VerifyAll(ctx context.Context) iter.Seq2[b3.Root, error] {
	return func(yield func(b3.Root, error) bool) {
		for e, err := range s.entries(ctx) {
			if err == nil {
				err = s.Verify(ctx, e.root)
			}
			if ctx.Err() != nil {
				yield(b3.Root{}, ctx.Err())
				return
			}
			if !yield(e.root, err) {
				return
			}
		}
	}
}
