package shards

import (
	"context"
	"io"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
)

// Send implements durability.Coder. The manifest goes last: a member that has it has the piece.
func (c *Coder) Send(
	ctx context.Context, to peer.ID, manifest b3.Root, m *erasure.Manifest, p plan.Piece, meter repair.Meter,
) error {
	if p == plan.Whole {
		return status.Errorf(status.Internal, "the piece of a coded object that is sent is no shard")
	}
	if err := c.deps.Filter.Object(m.Object); err != nil {
		return err
	}
	for stripe := range m.Shards {
		if _, size := m.Shard(stripe, p.Shard()); size == 0 {
			continue
		}
		obj, err := c.openShard(ctx, manifest, m, stripe, p.Shard(), meter.Fetched)
		if err == nil {
			err = c.put(ctx, to, obj, meter)
		}
		if err != nil {
			return err
		}
	}
	for _, root := range []b3.Root{m.Outboard, manifest} {
		if root.IsZero() {
			continue
		}
		obj, err := c.deps.Store.Inspect(ctx, root)
		if err == nil {
			err = c.put(ctx, to, obj, meter)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put stores an object at a member, and closes it.
func (c *Coder) put(ctx context.Context, to peer.ID, obj b3.Object, meter repair.Meter) error {
	defer obj.Close()
	return c.deps.Put(ctx, to, obj, meter)
}

// openShard opens a shard: from the store, as a range of the whole object, or made from others.
func (c *Coder) openShard(
	ctx context.Context, manifest b3.Root, m *erasure.Manifest, stripe, shard int, wait wait,
) (b3.Object, error) {
	root, _ := m.Shard(stripe, shard)
	obj, err := c.deps.Store.Inspect(ctx, root)
	if err == nil {
		return obj, nil
	}
	if shard < m.Data {
		if obj, err := c.alias(ctx, m, stripe, shard); err == nil {
			return obj, nil
		}
	}
	switch status.Of(err) {
	case status.NotFound, status.Corrupt:
	default:
		return nil, err
	}
	if err := c.rebuild(ctx, manifest, m, stripe, shard, wait); err != nil {
		return nil, err
	}
	return c.deps.Store.Inspect(ctx, root)
}

// rebuild stores a shard, which it gets from a member or computes from others. It stays in the store as cached content.
func (c *Coder) rebuild(
	ctx context.Context, manifest b3.Root, m *erasure.Manifest, stripe, shard int, wait wait,
) error {
	release, err := c.streams.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	s, err := c.shards(manifest, m)
	if err != nil {
		return err
	}
	root, size := m.Shard(stripe, shard)
	from := &remade{ctx: ctx, s: s, stripe: stripe, shard: shard, size: size, wait: wait}
	_, err = c.deps.Store.Put(ctx, from, store.PutOptions{Expect: root, Size: size})
	if err == nil {
		c.m.rebuilt.Add(float64(size))
	}
	return err
}

// remade reads a shard that this node has not got.
type remade struct {
	ctx           context.Context
	s             *shards
	stripe, shard int
	size, off     int64
	wait          wait
	rest          []byte
}

// Read implements io.Reader.
func (r *remade) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.off == r.size {
			return 0, io.EOF
		}
		next := b3.Range{Start: r.off, End: min(r.off+window, r.size)}
		var err error
		if len(r.s.at(plan.Shard(r.shard))) > 0 { // a member that is about to leave has it
			r.rest, err = r.s.part(r.ctx, r.stripe, r.shard, next, r.wait)
		}
		if len(r.rest) == 0 {
			r.rest, err = r.s.rebuilt(r.ctx, r.stripe, r.shard, next, r.wait)
		}
		if err != nil {
			return 0, err
		}
		r.off = next.End
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
