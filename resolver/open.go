package resolver

import (
	"context"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/trace"
	"allium/resolver/transfer"
)

// Open returns an object, or a range of it, from the store or from peers. It
// returns when the size is proved and the first group of the range is verified.
// The rest is read as it arrives; at most opt.Ahead bytes ahead of the reader are
// requested. The store keeps every group that arrives: an object that was read to
// its end is local afterwards, and later calls use the parts of others. When the
// store has no space for a group, opt.Unstored says whether the rest comes through RAM.
//
// ctx governs the Content until it is closed. Errors carry the worst outcome of
// the providers (corrupt before upstream before timeout before not_found),
// bad_range as a [*transfer.RangeError], busy, or the outcome of the store.
// Every error but a bad range in opt names the lookup that records it.
func (r *Resolver) Open(ctx context.Context, root b3.Root, opt OpenOptions) (*Content, error) {
	if err := opt.Check(root); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := r.filter.Object(root); err != nil {
		return nil, r.ring.Fail(trace.Open, trace.Key{Root: root}, begun, "", err)
	}
	var c *Content
	err := opt.Absent
	if err == nil {
		c, err = openLocal(ctx, r.local, root, opt)
	}
	switch {
	case err == nil:
		c.lookup = r.ring.HitUnder(
			status.ParentOf(ctx), trace.Open, trace.Key{Root: root}, trace.Store, time.Since(begun))
	case !transfer.NeedsFetch(err):
		return nil, r.ring.Fail(trace.Open, trace.Key{Root: root}, begun, trace.Store, err)
	default:
		if c, err = openRemote(ctx, r, root, opt, err); err != nil {
			return nil, err
		}
	}
	r.m.observe("open_"+c.source.String(), begun)
	return c, nil
}

// openLocal opens an object of the store.
func openLocal(ctx context.Context, local Local, root b3.Root, opt OpenOptions) (*Content, error) {
	obj, err := local.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	c := &Content{root: root, source: SourceLocal, ctx: ctx, from: &localGroups{obj: obj}}
	return c.begin(opt, obj.Size())
}

// openRemote opens an object that is not local. The error here says why not.
func openRemote(ctx context.Context, r *Resolver, root b3.Root, opt OpenOptions, here error) (*Content, error) {
	l, err := r.admit()
	if err != nil {
		return nil, r.ring.Fail(trace.Open, trace.Key{Root: root}, time.Now(), "", err)
	}
	defer l.work.Leave()
	work, end := l.bind(ctx) // until the content is closed
	c := &Content{root: root, source: SourcePeer, ctx: work, done: end}
	if opt.Unstored {
		c.via = opt.Sources
		c.stream = func(opt OpenOptions, full error) (*transfer.Waiter, error) {
			return r.transfers.Stream(work, l, root, opt, full)
		}
	}
	size, err := r.findGroups(work, l, c, opt, here)
	if c.full(err) {
		size, err = c.openStream(opt, err)
	}
	if err == nil && c.from == nil { // the object became local meanwhile
		var obj b3.Object
		if obj, err = r.local.Open(work, root); err == nil {
			c.source, c.from, size = SourceLocal, &localGroups{obj: obj}, obj.Size()
		}
	}
	if err != nil {
		err = drainingError(work, err)
		c.Close()
		return nil, status.WithLookup(transfer.Unmended(here, err), c.lookup)
	}
	opened, err := c.begin(opt, size)
	return opened, status.WithLookup(err, c.lookup)
}

// findGroups lets c read from the transfer of the object. It leaves c.from nil
// when the object has become local. The error here says why it was not.
func (r *Resolver) findGroups(
	ctx context.Context, l *life, c *Content, opt OpenOptions, here error,
) (size int64, err error) {
	w, err := r.transfers.Join(ctx, l, c.root, opt)
	if err != nil {
		return 0, err
	}
	w.NoteDamage(here)
	c.lookup = w.LookupID()
	from, size, err := w.Open()
	if err != nil || from == nil {
		w.Leave()
		return 0, err
	}
	c.from, c.resumed = from, w.Resumed()
	return size, nil
}
