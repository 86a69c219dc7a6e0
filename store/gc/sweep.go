package gc

import (
	"context"

	"allium/protocols/status"
	"allium/store/meta"
)

// candidate is an object that may be evicted.
type candidate struct {
	meta.Entry
	charge  int64 // bytes that it takes, outboard included
	local   int64 // the part of charge on the node's own disk
	partial bool  // a partial object; Size is what is stored of it
}

func (o candidate) object() Object {
	return Object{Root: o.Root, Size: o.Size, Used: o.Used.Time(), Partial: o.partial}
}

// scan looks at every object, a page at a time, and removes those that nothing protects and
// pick selects. With count it adds all of them to the report.
func (c *cycle) scan(ctx context.Context, count bool, pick func(candidate) bool) error {
	batch := make([]candidate, 0, maxBatch)
	at := 0
	take := func(o candidate) error {
		if at++; at%meta.PageSize == 0 {
			if err := c.duty.rest(ctx); err != nil {
				return err
			}
			c.reportProgress()
		}
		class := c.classify(o)
		if count {
			c.report.Seen.Add(o.charge)
			c.reclassify(o, "", class)
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
			err = take(candidate{Entry: e, charge: meta.StoredSize(e.Size), local: c.g.deps.Account.localSize(e)})
		}
		if err != nil {
			return err
		}
	}
	for p, err := range c.g.deps.Partials.All(ctx) {
		if err == nil {
			size := meta.PartialSize(p.Stored)
			err = take(candidate{
				Entry:  meta.Entry{Root: p.Root, Size: p.Stored, Used: p.Used},
				charge: size, local: size, partial: true,
			})
		}
		if err != nil {
			return err
		}
	}
	return c.remove(ctx, batch)
}

// classify returns the class of o: what protects it, or Cache.
func (c *cycle) classify(o candidate) Class {
	switch {
	case c.marks.Has(o.Root):
		return Pinned
	case c.g.deps.Leases.InUse(o.Root):
		return Leased
	case c.recent.Has(o.Root):
		return Recent
	case c.g.deps.Uses.Held(o.Root, max(o.Used, c.g.deps.Uses.UsedAt(o.Root))):
		return Held
	}
	return Cache
}

// reclassify moves o from one class of the report to another. An empty from adds it.
func (c *cycle) reclassify(o candidate, from, to Class) {
	if n := c.report.Classes[from]; from != "" {
		c.report.Classes[from] = meta.Count{Objects: n.Objects - 1, Bytes: n.Bytes - o.charge}
	}
	n := c.report.Classes[to]
	n.Add(o.charge)
	c.report.Classes[to] = n
}

// remove removes the part of batch that is still unprotected. In a dry run it only reports.
func (c *cycle) remove(ctx context.Context, batch []candidate) error {
	if len(batch) == 0 {
		return nil
	}
	if err := c.duty.rest(ctx); err != nil {
		return err
	}
	if !c.opt.Dry {
		over, err := c.beginRemoval(ctx)
		if err != nil {
			return err
		}
		defer over()
		c.report.Open, _ = c.g.deps.Damages().Open()
		if c.report.Blocked() { // damage was found since the scan
			return nil
		}
		if batch, err = c.removeUnused(ctx, batch); err != nil {
			return err
		}
		c.g.signalProgress()
	}
	for _, o := range batch {
		c.reclassify(o, Cache, Removed)
		if c.opt.Removal != nil && !c.opt.Removal(o.object()) {
			return errStopped
		}
	}
	c.reportProgress()
	return nil
}

// removeUnused registers the removals, checks again that nothing protects the objects,
// removes them, and returns what is gone.
func (c *cycle) removeUnused(ctx context.Context, batch []candidate) (gone []candidate, err error) {
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
		// Checked before registering, as a registered object looks removed to readers.
		class, err := c.classifyAgain(o)
		if err != nil {
			return nil, err
		}
		if class != Cache {
			c.reclassify(o, Cache, class)
			continue
		}
		over, err := g.deps.Leases.Remove(o.Root)
		if err != nil {
			c.reclassify(o, Cache, Leased)
			continue
		}
		if class, err = c.classifyAgain(o); err != nil || class != Cache {
			over()
			if err != nil {
				return nil, err
			}
			c.reclassify(o, Cache, class)
			continue
		}
		defer over() // of the batch
		es, out = append(es, o.Entry), append(out, o)
	}
	if len(es) > 0 {
		if err := g.deps.Backend.RemoveAll(ctx, es); err != nil {
			return nil, err
		}
	}
	for _, o := range out {
		if _, exists, err := g.deps.Backend.Get(o.Root); err != nil {
			return gone, err
		} else if !exists { // an object that moved stays; the next pass has its new place
			gone = append(gone, o)
		}
	}
	return gone, nil
}

// removePartial removes a partial object unless it is in use. It reports whether it did.
func (c *cycle) removePartial(ctx context.Context, o candidate) (bool, error) {
	if class := c.classify(o); class != Cache {
		c.reclassify(o, Cache, class)
		return false, nil
	}
	err := c.g.deps.Partials.Remove(ctx, o.Root)
	switch status.Of(err) {
	case status.OK:
		return true, nil
	case status.Conflict:
		c.reclassify(o, Cache, Leased)
		return false, nil
	case status.NotFound: // completed or removed meanwhile
		return false, nil
	}
	return false, err
}

// classifyAgain is classify with the last use that the backend knows, without leases. The
// result stays true while the removal of o is registered.
func (c *cycle) classifyAgain(o candidate) (Class, error) {
	switch {
	case c.marks.Has(o.Root):
		return Pinned, nil
	case c.recent.Has(o.Root):
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
