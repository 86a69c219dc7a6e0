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

func (u usesOf) Held(used meta.Second) bool { return u.s.touches.held(used) }
