package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/uses"
)

// usesOf shows the last uses to a collection.
type usesOf struct {
	*uses.Tracker
	s *Store
}

// Flush writes the uses that the backend does not know yet.
func (u usesOf) Flush(ctx context.Context) error { return u.s.flushUses(ctx) }

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
