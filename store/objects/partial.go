package objects

import (
	"context"

	"allium/protocols/b3"
	"allium/store/arriving/partial"
	"allium/store/meta"
)

// OpenPartial opens a partial object, which the caller closes. It returns
// not_found if no part is stored. Every read verifies the groups again. The
// object sees groups that arrive later; [Object.Covers] reports which bytes can
// be read. Reading another group returns not_found.
func (s *Objects) OpenPartial(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.p.deps.Admission.Leave()
	v, err := s.partials.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return s.p.Partial(v), nil
}

// Partial returns the object that reads a view, which it closes.
func (p *Opener) Partial(v *partial.View) *Object {
	o := p.newObject(meta.Entry{Root: v.Root(), Size: v.Size()}, v.Source(), nil)
	o.part = v
	return o
}

// DamagedIfWhole handles err, which says that bytes of a partial object are
// damaged. If root has become whole since it was opened, the whole object is the
// damaged one.
func (p *Opener) DamagedIfWhole(root b3.Root, err error) error {
	if p.deps.Admission.Enter() != nil {
		return err
	}
	defer p.deps.Admission.Leave()
	e, ok, failure := p.Lookup(root)
	if failure != nil || !ok {
		return err
	}
	return p.Damaged(e, err)
}
