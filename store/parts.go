package store

import (
	"context"
	"iter"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/partial"
)

// usesOf shows the last uses to a collection.
type usesOf struct{ s *Store }

func (u usesOf) Flush(ctx context.Context) error { return u.s.flushTouches(ctx) }

func (u usesOf) UsedAt(root b3.Root) meta.Second { return u.s.touches.usedAt(root) }

func (u usesOf) Holding() bool { return u.s.touches.holding() }

func (u usesOf) Held(used meta.Second) bool { return u.s.touches.held(used) }

// partialsOf shows what is here of objects that are not whole to a collection.
type partialsOf struct{ s *Store }

func (p partialsOf) Find(root b3.Root) (partial.Record, bool, error) { return p.s.partial(root) }

func (p partialsOf) All(ctx context.Context) iter.Seq2[partial.Record, error] {
	return p.s.partialRecords(ctx)
}

func (p partialsOf) Remove(ctx context.Context, root b3.Root) error {
	return p.s.RemovePartial(ctx, root)
}

func (p partialsOf) Running(root b3.Root) bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	_, ok := p.s.running[root]
	return ok
}

func (p partialsOf) Bytes() int64 { return p.s.partials.bytes.Load() }
