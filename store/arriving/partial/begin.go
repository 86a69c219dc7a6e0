package partial

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Ingest begins or continues the download of root, which is claimed to have size bytes.
// Nothing is allocated in proportion to the claim, and a claim that differs from a proved
// size is upstream. A second ingest of the same object is conflict; see IngestApart. Ingest
// waits for a place at Deps.Gate as long as ctx allows.
func (t *Table) Ingest(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	return t.ingest(ctx, root, size, false)
}

// IngestApart is Ingest for an object that has another ingest under way. The new one writes to separate files, so
// neither waits for the other. The first commit makes the object visible, and later ones store nothing. Suspend saves
// nothing: it discards the groups that arrived.
func (t *Table) IngestApart(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	return t.ingest(ctx, root, size, true)
}

func (t *Table) ingest(ctx context.Context, root b3.Root, size int64, apart bool) (*Ingest, error) {
	if size < 0 || size > b3.MaxSize {
		return nil, status.Errorf(status.Upstream, "store: %s cannot have %d bytes", root, size)
	}
	if err := t.deps.Filter.Object(root); err != nil {
		return nil, err
	}
	if err := t.claim(root, apart); err != nil {
		return nil, err
	}
	in, err := t.beginIngest(ctx, root, size, apart)
	if err != nil {
		t.unclaim(root, apart)
	}
	return in, err
}

// claim registers an ingest of root; unclaim ends that.
func (t *Table) claim(root b3.Root, apart bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if apart {
		t.apart++
		return nil
	}
	if _, ok := t.ingests[root]; ok {
		return status.Errorf(status.Conflict, "%s is being downloaded already; wait for it or follow it", root)
	}
	t.ingests[root] = struct{}{}
	return nil
}

func (t *Table) unclaim(root b3.Root, apart bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if apart {
		t.apart--
		return
	}
	delete(t.ingests, root)
}

// Running reports whether root has an ingest that was not begun apart.
func (t *Table) Running(root b3.Root) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.ingests[root]
	return ok
}

func (t *Table) beginIngest(ctx context.Context, root b3.Root, size int64, apart bool) (*Ingest, error) {
	permit, err := t.deps.Gate.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	first := meta.Count{Objects: 1, Bytes: min(size, b3.GroupSize)} // a check: the writes reserve their own space
	if err := t.deps.Space.Reserve(ctx, first); err != nil {
		permit()
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	t.deps.Space.Release(first)
	t.deps.Leases.Acquire(root)
	p, err := t.objectFor(ctx, root, size, apart)
	if err != nil {
		t.deps.Leases.Release(root)
		permit()
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	return &Ingest{object: p, permit: permit}, nil
}

// objectFor returns the object that an ingest writes to.
func (t *Table) objectFor(ctx context.Context, root b3.Root, size int64, apart bool) (*object, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer t.deps.Admission.Leave()
	switch {
	case meta.Small(size):
		return newSmall(t, root, size, apart), nil
	case apart:
		return newApart(t, root, size)
	}
	p, err := t.acquire(ctx, root, size)
	if err != nil {
		return nil, err
	}
	if p.size != size {
		known := p.size
		p.release()
		return nil, status.Errorf(status.Upstream, "the object was proved to have %d bytes, not %d", known, size)
	}
	return p, nil
}
