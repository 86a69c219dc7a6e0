package gc

import (
	"context"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Chain is how a pin holds an object.
type Chain struct {
	Pin   meta.Pin
	Steps []Step // from the pin's root to the object, both included
}

// String names the pin.
func (c Chain) String() string { return describe(c.Pin) }

// Holder returns the first pin found that holds root, its own or a recursive one
// above it, and nil for none. It reads the directories below recursive pins until it
// finds root. While one of them is damaged or lost, what it names is unknown:
// conflict, unless a pin is found.
func (g *Collector) Holder(ctx context.Context, root b3.Root) (*Chain, error) {
	own, err := g.deps.Backend.Pins(root, "", make([]meta.Pin, 0, 1))
	if err != nil {
		return nil, err
	}
	if len(own) == 1 && own[0].Root == root {
		return &Chain{Pin: own[0], Steps: []Step{{Root: root}}}, nil
	}
	c, bad, err := g.above(ctx, root)
	if err == nil && c == nil && bad != nil {
		err = bad.err(root)
	}
	return c, err
}

// above returns the first recursive pin found that holds root from above, and
// the first damage met on the way.
func (g *Collector) above(ctx context.Context, root b3.Root) (_ *Chain, bad *Damage, err error) {
	var pin meta.Pin
	w := walker{
		g: g, pause: g.deps.Admission.Alive,
		visit: func(r b3.Root) bool { return r == root },
		damaged: func(path []Step) {
			if bad == nil {
				d := damageAt(pin, path)
				bad = &d
			}
		},
	}
	for p, err := range g.deps.Pins(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if !p.Recursive || p.Root == root {
			continue
		}
		pin = p
		if lost, err := g.lost(ctx, p); err != nil {
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

// lost reports whether the object of a pin is not here, though Pin saw it: it
// was lost. p may have been removed since it was read.
func (g *Collector) lost(ctx context.Context, p meta.Pin) (bool, error) {
	if err := g.deps.Admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer g.deps.Admission.Leave()
	// Not find: a removal that is under way finds the pin and is given up.
	if _, ok, err := g.deps.Backend.Get(p.Root); ok || err != nil {
		return false, err
	}
	// A pin that is still there was there all the time: none is set on what is absent.
	return g.hasPin(p)
}

// hasPin reports whether there is a pin of that object with that label.
func (g *Collector) hasPin(p meta.Pin) (bool, error) {
	page, err := g.deps.Backend.Pins(p.Root, p.Label, make([]meta.Pin, 0, 1))
	return len(page) == 1 && page[0].Root == p.Root && page[0].Label == p.Label, err
}
