package gc

import (
	"context"

	"allium/protocols/status"
	"allium/store/meta"
)

// candidate is an object that nothing was seen to hold.
type candidate struct {
	meta.Entry
	charge  int64 // bytes, outboard included
	local   int64 // of them on the node's own disk
	partial bool  // size is what is here of it
}

func (o candidate) object() Object {
	return Object{Root: o.Root, Size: o.Size, Used: o.Used.Time(), Partial: o.partial}
}

// scan looks at every object, a page at a time, and removes those that pick
// picks. With count the report counts them all.
func (c *cycle) scan(ctx context.Context, count bool, pick func(candidate) bool) error {
	batch := make([]candidate, 0, maxBatch)
	at := 0
	take := func(o candidate) error {
		if at++; at%meta.PageSize == 0 {
			if err := c.pace.rest(ctx); err != nil {
				return err
			}
			c.tell()
		}
		class := c.classify(o)
		if count {
			c.report.Seen.Add(o.charge)
			c.move(o, "", class)
		}
		if class != Cache || !pick(o) {
			return nil
		}
		if batch = append(batch, o); len(batch) < maxBatch {
			return nil
		}
		err := c.remove(ctx, batch)
		batch = batch[:0]
		return err
	}
	for e, err := range c.g.deps.Entries(ctx) {
		if err == nil {
			err = take(candidate{Entry: e, charge: meta.StoredSize(e.Size), local: c.g.deps.Account.local(e)})
		}
		if err != nil {
			return err
		}
	}
	for p, err := range c.g.deps.Partials.All(ctx) {
		if err == nil {
			err = take(candidate{Entry: meta.Entry{Root: p.Root, Size: p.Held, Used: p.Used}, charge: meta.PartialSize(p.Held), local: meta.PartialSize(p.Held), partial: true})
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
	case c.marks.Has(o.Root):
		return Pinned
	case c.g.deps.Leases.InUse(o.Root):
		return Leased
	case c.young.Has(o.Root):
		return Recent
	case c.g.deps.Uses.Held(o.Root, max(o.Used, c.g.deps.Uses.UsedAt(o.Root))):
		return Held
	}
	return Cache
}

// move counts o in another class.
func (c *cycle) move(o candidate, from, to Class) {
	if n := c.report.Classes[from]; from != "" {
		c.report.Classes[from] = meta.Count{Objects: n.Objects - 1, Bytes: n.Bytes - o.charge}
	}
	n := c.report.Classes[to]
	n.Add(o.charge)
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
		c.report.Open, _ = c.g.deps.Backend.Damages().Open()
		if c.report.Blocked() { // below a pin that came meanwhile, or found meanwhile
			return nil
		}
		if batch, err = c.removeUnheld(ctx, batch); err != nil {
			return err
		}
		c.g.moved()
	}
	for _, o := range batch {
		c.move(o, Cache, Removed)
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
	g := c.g
	if err := g.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer g.deps.Admission.Leave()
	var es []meta.Entry
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
		// What is held is not registered: while it is, it looks as if it were gone.
		class, err := c.lastLook(o)
		if err != nil {
			return nil, err
		}
		if class != Cache {
			c.move(o, Cache, class)
			continue
		}
		over, err := g.deps.Leases.Remove(o.Root)
		if err != nil {
			c.move(o, Cache, Leased)
			continue
		}
		if class, err = c.lastLook(o); err != nil || class != Cache {
			over()
			if err != nil {
				return nil, err
			}
			c.move(o, Cache, class)
			continue
		}
		defer over() // of the batch
		es, out = append(es, o.Entry), append(out, o)
	}
	if err := g.removeAll(ctx, es); err != nil {
		return nil, err
	}
	for _, o := range out {
		if _, still, err := g.deps.Backend.Get(o.Root); err != nil {
			return gone, err
		} else if !still { // else it has moved: the next pass has its new place
			gone = append(gone, o)
		}
	}
	return gone, nil
}

// removePartial removes what is here of an object unless it is in use.
func (c *cycle) removePartial(ctx context.Context, o candidate) (bool, error) {
	if class := c.classify(o); class != Cache {
		c.move(o, Cache, class)
		return false, nil
	}
	err := c.g.deps.Partials.Remove(ctx, o.Root)
	switch status.Of(err) {
	case status.OK:
		return true, nil
	case status.Conflict:
		c.move(o, Cache, Leased)
		return false, nil
	case status.NotFound: // it became whole, or was removed
		return false, nil
	}
	return false, err
}

// lastLook is classify with what the backend knows. Of an object whose removal is
// registered, what it finds cannot change.
func (c *cycle) lastLook(o candidate) (Class, error) {
	switch {
	case c.marks.Has(o.Root):
		return Pinned, nil
	case c.young.Has(o.Root):
		return Recent, nil
	case !c.g.deps.Uses.Holding():
		return Cache, nil
	}
	used := max(o.Used, c.g.deps.Uses.UsedAt(o.Root))
	at, err := c.g.deps.Backend.UsedAt(o.Entry)
	if err == nil && c.g.deps.Uses.Held(o.Root, max(used, at)) {
		return Held, nil
	}
	return Cache, err
}

// removeAll removes objects whose removal is registered.
func (g *Collector) removeAll(ctx context.Context, es []meta.Entry) error {
	if len(es) == 0 {
		return nil
	}
	return g.deps.Backend.RemoveAll(ctx, es)
}
