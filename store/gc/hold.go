package gc

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/store/meta"
)

// Chain is the path by which a pin protects an object.
type Chain struct {
	Pin   meta.Pin
	Steps []Step // from the pin's root to the object, both included
}

// String describes the pin.
func (c Chain) String() string { return describe(c.Pin) }

// Holder returns the first pin found that protects root, its own or a recursive one above
// it, and nil for none. It reads the directories below recursive pins until it finds root.
// If it finds no pin but a damaged or lost directory, it returns conflict.
func (t *trees) Holder(ctx context.Context, root b3.Root) (*Chain, error) {
	own, err := t.deps.Backend.Pins(root, "", make([]meta.Pin, 0, 1))
	if err != nil {
		return nil, err
	}
	if len(own) == 1 && own[0].Root == root {
		return &Chain{Pin: own[0], Steps: []Step{{Root: root}}}, nil
	}
	c, bad, err := t.pinAbove(ctx, root)
	if err == nil && c == nil && bad != nil {
		err = bad.err(root)
	}
	return c, err
}

// pinAbove returns the first recursive pin found whose tree contains root, and the first
// damage met on the way.
func (t *trees) pinAbove(ctx context.Context, root b3.Root) (_ *Chain, bad *Damage, err error) {
	var pin meta.Pin
	w := walker{
		trees: t, pause: t.deps.Admission.Alive,
		visit: func(ref manifest.Ref) bool { return ref.Root == root },
		damaged: func(path []Step) {
			if bad == nil {
				d := damageAt(pin, path)
				bad = &d
			}
		},
	}
	for p, err := range t.deps.Pins(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if !p.Recursive || p.Root == root {
			continue
		}
		pin = p
		if lost, err := t.isLost(ctx, p); err != nil {
			return nil, nil, err
		} else if lost {
			if bad == nil {
				bad = &Damage{Pin: p, Node: p.Root, Absent: true}
			}
			continue
		}
		steps, found, err := w.walk(ctx, p.Root)
		if err != nil {
			return nil, nil, err
		}
		if found {
			return &Chain{Pin: p, Steps: steps}, bad, nil
		}
	}
	return nil, bad, nil
}

// isLost reports whether the object of a pin is missing although Pin saw it. p may have
// been dropped since it was read.
func (t *trees) isLost(ctx context.Context, p meta.Pin) (bool, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer t.deps.Admission.Leave()
	// Not findVisible: a removal in progress sees the pin and is given up.
	if _, ok, err := t.deps.Backend.Get(p.Root); ok || err != nil {
		return false, err
	}
	// A pin is never set on a missing object, so one that still exists lost its object.
	return t.hasPin(p)
}

// hasPin reports whether the pin with that object and label exists.
func (t *trees) hasPin(p meta.Pin) (bool, error) {
	page, err := t.deps.Backend.Pins(p.Root, p.Label, make([]meta.Pin, 0, 1))
	return len(page) == 1 && page[0].Root == p.Root && page[0].Label == p.Label, err
}

// findVisible returns the entry of a visible object that is not being removed.
func (t *trees) findVisible(root b3.Root) (meta.Entry, bool, error) {
	if t.deps.Leases.Removing(root) {
		return meta.Entry{}, false, nil
	}
	return t.deps.Backend.Get(root)
}
