package partial

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Ingest begins the download of root, of which it is claimed that it has size
// bytes, or goes on with one that was suspended or cut off: nothing is allocated
// in proportion to a claim, and one that differs from a size that was proved is
// upstream. One ingest of an object runs at a time; a second is refused with
// conflict. It waits for a place at Deps.Gate, as long as ctx lets it.
func (t *Table) Ingest(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	if size < 0 || size > b3.MaxSize {
		return nil, status.Errorf(status.Upstream, "store: %s cannot have %d bytes", root, size)
	}
	if err := t.deps.Denied(root); err != nil {
		return nil, err
	}
	if err := t.claim(root); err != nil {
		return nil, err
	}
	in, err := t.begin(ctx, root, size)
	if err != nil {
		t.unclaim(root)
	}
	return in, err
}

// claim reserves root for one ingest.
func (t *Table) claim(root b3.Root) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.running[root]; ok {
		return status.Errorf(status.Conflict, "store: %s is being downloaded already; wait for it or follow it", root)
	}
	t.running[root] = struct{}{}
	return nil
}

func (t *Table) unclaim(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, root)
}

// Running reports whether root is being downloaded.
func (t *Table) Running(root b3.Root) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.running[root]
	return ok
}

func (t *Table) begin(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	permit, err := t.deps.Gate.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	first := meta.Count{Objects: 1, Bytes: min(size, b3.GroupSize)} // to begin with
	if err := t.deps.Space.Reserve(ctx, first); err != nil {
		permit()
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	t.deps.Space.Release(first)
	t.deps.Leases.Acquire(root)
	p, err := t.objectFor(ctx, root, size)
	if err != nil {
		t.deps.Leases.Release(root)
		permit()
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	return &Ingest{p: p, permit: permit}, nil
}

// objectFor is what an ingest writes to.
func (t *Table) objectFor(ctx context.Context, root b3.Root, size int64) (*object, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer t.deps.Admission.Leave()
	if meta.Small(size) {
		return newSmall(t, root, size), nil
	}
	p, err := t.use(ctx, root, size)
	if err != nil {
		return nil, err
	}
	if p.size != size {
		known := p.size
		p.unuse()
		return nil, status.Errorf(status.Upstream, "%d bytes are claimed, %d were proved", size, known)
	}
	return p, nil
}
