package shards

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// Manifest implements durability.Coder.
func (c *Coder) Manifest(ctx context.Context, root b3.Root) (*erasure.Manifest, error) {
	obj, err := c.deps.Store.Inspect(ctx, root)
	if err != nil {
		return nil, err
	}
	defer obj.Close()
	if obj.Size() > erasure.MaxManifest {
		return nil, status.Errorf(status.BadRequest, "%s is no coding manifest: it has %d bytes", root, obj.Size())
	}
	p := make([]byte, obj.Size())
	if n, err := obj.Reader().ReadAt(p, 0); n < len(p) {
		return nil, obj.Failed(err)
	}
	m, err := erasure.Decode(p)
	if err != nil {
		return nil, err
	}
	for _, piece := range append(m.Pieces(), m.Object) {
		if piece == root {
			return nil, status.Errorf(status.BadRequest, "the coding manifest %s names itself", root)
		}
	}
	return m, nil
}

// Held implements durability.Coder.
func (c *Coder) Held(ctx context.Context, m *erasure.Manifest) (p plan.Piece, ok bool, err error) {
	if !m.Outboard.IsZero() {
		has, err := c.deps.Store.Has(ctx, []b3.Root{m.Outboard})
		if err != nil || has[0] != b3.Complete {
			return p, false, err
		}
	}
	for shard := range m.Layout.Shards() {
		if ok, err := c.holds(ctx, m, shard); err != nil || ok {
			return plan.Shard(shard), ok, err
		}
	}
	has, err := c.deps.Store.Has(ctx, []b3.Root{m.Object})
	return plan.Whole, err == nil && has[0] == b3.Complete, err
}

// holds reports whether a shard of each stripe is stored, and pinned for the cluster.
func (c *Coder) holds(ctx context.Context, m *erasure.Manifest, shard int) (bool, error) {
	var roots []b3.Root
	for i := range m.Shards {
		if root, size := m.Shard(i, shard); size > 0 {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return false, nil
	}
	has, err := c.deps.Store.Has(ctx, roots)
	if err != nil {
		return false, err
	}
	for i, root := range roots {
		if has[i] != b3.Complete {
			return false, nil
		}
		if pinned, err := c.deps.Store.HasPin(ctx, root, meta.ClusterLabel); err != nil || !pinned {
			return false, err
		}
	}
	return true, nil
}
