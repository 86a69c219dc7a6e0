package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/meta"
)

// usesOf shows the last uses to a collection.
type usesOf struct{ s *Store }

func (u usesOf) Flush(ctx context.Context) error { return u.s.flushTouches(ctx) }

func (u usesOf) UsedAt(root b3.Root) meta.Second { return u.s.touches.usedAt(root) }

func (u usesOf) Holding() bool { return u.s.touches.holding() }

func (u usesOf) Held(_ b3.Root, used meta.Second) bool { return u.s.touches.held(used) }

// scrubbed shows the objects to a scrub.
type scrubbed struct{ s *Store }

func (o scrubbed) Load(e *meta.Entry) (*b3.Memory, error) { return o.s.load(e) }

func (o scrubbed) OpenPair(e meta.Entry) (meta.Pair, error) { return o.s.backend.OpenPair(e) }

func (o scrubbed) Page(ctx context.Context, root b3.Root, page []meta.Entry) ([]meta.Entry, error) {
	return o.s.entryPage(ctx, root, page)
}

func (o scrubbed) Verify(ctx context.Context, root b3.Root, buf []byte, did func(n int) error) error {
	return o.s.verify(ctx, root, buf, did)
}
