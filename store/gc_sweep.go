package store

import (
	"context"

	"allium/protocols/status"
)

// candidate is an object that nothing was seen to hold.
type candidate struct {
	entry
	charge  int64 // bytes, outboard included
	local   int64 // of them on the node's own disk
	partial bool  // size is what is here of it
}

func (o candidate) object() GCObject {
	return GCObject{Root: o.root, Size: o.size, Used: o.used.time(), Partial: o.partial}
}

// scan looks at every object, a page at a time, and removes those that pick
// picks. With count the report counts them all.
func (c *cycle) scan(ctx context.Context, count bool, pick func(candidate) bool) error {
	batch := make([]candidate, 0, maxBatch)
	at := 0
	take := func(o candidate) error {
		if at++; at%pageSize == 0 {
			if err := c.pace.rest(ctx); err != nil {
				return err
			}
			c.tell()
		}
		class := c.classify(o)
		if count {
			c.report.Seen.add(o.charge)
			c.move(o, "", class)
		}
		if class != GCCache || !pick(o) {
			return nil
		}
		if batch = append(batch, o); len(batch) < maxBatch {
			return nil
		}
		err := c.remove(ctx, batch)
		batch = batch[:0]
		return err
	}
	for e, err := range c.s.entries(ctx) {
		if err == nil {
			err = take(candidate{entry: e, charge: charge(e.size), local: c.s.localCharge(e)})
		}
		if err != nil {
			return err
		}
	}
	for p, err := range c.s.Partials(ctx) {
		if err == nil {
			err = take(candidate{entry: entry{root: p.Root, size: p.Held, used: secondOf(p.Used)}, charge: partialCharge(p.Held), local: partialCharge(p.Held), partial: true})
		}
		if err != nil {
			return err
		}
	}
	return c.remove(ctx, batch)
}

// classify is what a look at o says; cache when nothing holds it. It fills in a
// later use.
func (c *cycle) classify(o candidate) Class {
	switch {
	case c.marks.has(o.root):
		return GCPinned
	case c.s.roots.inUse(o.root):
		return GCLeased
	case c.young.has(o.root):
		return GCRecent
	case c.s.touches.held(max(o.used, c.s.touches.usedAt(o.root))):
		return GCHeld
	}
	return GCCache
}

// move counts o in another class.
func (c *cycle) move(o candidate, from, to Class) {
	if n := c.report.Classes[from]; from != "" {
		c.report.Classes[from] = GCCount{n.Objects - 1, n.Bytes - o.charge}
	}
	n := c.report.Classes[to]
	n.add(o.charge)
	c.report.Classes[to] = n
}

// remove removes a batch, or what of it nothing has come to hold meanwhile.
func (c *cycle) remove(ctx context.Context, batch []candidate) error {
	if len(batch) == 0 {
		return nil
	}
	if err := c.pace.rest(ctx); err != nil {
		return err
	}
	if !c.opt.Dry {
		over, err := c.begin(ctx)
		if err != nil {
			return err
		}
		defer over()
		if len(c.report.Damaged) > 0 { // below a pin that came meanwhile
			return nil
		}
		if batch, err = c.removeUnheld(ctx, batch); err != nil {
			return err
		}
		c.s.gc.moved()
	}
	for _, o := range batch {
		c.move(o, GCCache, GCRemoved)
		if c.opt.Removal != nil && !c.opt.Removal(o.object()) {
			return errEnough
		}
	}
	c.tell()
	return nil
}

// removeUnheld registers the removals, looks again, removes, and returns what
// is gone.
func (c *cycle) removeUnheld(ctx context.Context, batch []candidate) (gone []candidate, err error) {
	s := c.s
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var es []entry
	var out []candidate
	for _, o := range batch {
		if o.partial {
			if ok, err := c.removePartial(ctx, o); err != nil {
				return gone, err
			} else if ok {
				gone = append(gone, o)
			}
			continue
		}
		over, err := s.roots.remove(o.root)
		if err != nil {
			c.move(o, GCCache, GCLeased)
			continue
		}
		defer over() // of the batch
		class, err := c.lastLook(o)
		if err != nil {
			return nil, err
		}
		if class != GCCache {
			c.move(o, GCCache, class)
			continue
		}
		es, out = append(es, o.entry), append(out, o)
	}
	if err := s.removeAll(ctx, es); err != nil {
		return nil, err
	}
	for _, o := range out {
		if _, still, err := s.backend.get(o.root); err != nil {
			return gone, err
		} else if !still { // else it has moved: the next pass has its new place
			gone = append(gone, o)
		}
	}
	return gone, nil
}

// removePartial removes what is here of an object unless it is in use.
func (c *cycle) removePartial(ctx context.Context, o candidate) (bool, error) {
	if class := c.classify(o); class != GCCache {
		c.move(o, GCCache, class)
		return false, nil
	}
	err := c.s.RemovePartial(ctx, o.root)
	switch status.Of(err) {
	case status.OK:
		return true, nil
	case status.Conflict:
		c.move(o, GCCache, GCLeased)
		return false, nil
	case status.NotFound: // it became whole, or was removed
		return false, nil
	}
	return false, err
}

// lastLook is classify of an object whose removal is registered: what it finds
// cannot change.
func (c *cycle) lastLook(o candidate) (Class, error) {
	switch {
	case c.marks.has(o.root):
		return GCPinned, nil
	case c.young.has(o.root):
		return GCRecent, nil
	case !c.s.touches.holding():
		return GCCache, nil
	}
	used := max(o.used, c.s.touches.usedAt(o.root))
	at, err := c.s.backend.usedAt(o.entry)
	if err == nil && c.s.touches.held(max(used, at)) {
		return GCHeld, nil
	}
	return GCCache, err
}

// removeAll removes objects whose removal is registered.
func (s *Store) removeAll(ctx context.Context, es []entry) error {
	if len(es) == 0 {
		return nil
	}
	return s.backend.removeAll(ctx, es)
}
