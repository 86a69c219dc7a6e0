package objects

import (
	"context"
	"fmt"
	"sync"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/scrub"
)

// groups holds *[]byte of one group.
var groups = sync.Pool{New: func() any { b := make([]byte, b3.GroupSize); return &b }}

// Verify reads an object to its end and verifies it, even if it is marked
// corrupt. If a byte is wrong, it marks the object and returns corrupt. If the
// object is marked but right, it removes the mark. It waits for an object that is being
// restored.
func (s *Objects) Verify(ctx context.Context, root b3.Root) error {
	d := s.p.deps
	if err := d.Moved.Wait(ctx, root); err != nil {
		return err
	}
	group := groups.Get().(*[]byte)
	defer groups.Put(group)
	return s.p.Verify(ctx, root, *group, func(int) error { return d.Admission.Alive(ctx) })
}

// Verify is [Objects.Verify] with a buffer of at least one group. It calls did with the
// number of bytes after each read; an error of did ends it.
func (p *Opener) Verify(ctx context.Context, root b3.Root, buf []byte, did func(n int) error) error {
	if err := p.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	p.deps.Leases.Acquire(root)
	o, err := p.openDamaged(root)
	p.deps.Admission.Leave()
	if err != nil {
		p.deps.Leases.Release(root)
		return err
	}
	defer o.Close()
	if err := scrub.Prove(p.deps.Hash.Background(), o.Root(), o.Size(), o.src, buf, did); err != nil {
		return o.Failed(err)
	}
	if !o.e.Corrupt {
		return nil
	}
	if err := p.deps.Admission.Enter(); err != nil {
		return err
	}
	defer p.deps.Admission.Leave()
	return p.deps.Backend.Mark(o.e, false)
}

// openDamaged opens root whether or not it is marked corrupt. On success the
// object owns the caller's lease.
func (p *Opener) openDamaged(root b3.Root) (*Object, error) {
	e, ok, err := p.Lookup(root)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", root, err)
	}
	if !ok {
		return nil, meta.NotFound(root)
	}
	return p.openEntry(e)
}
