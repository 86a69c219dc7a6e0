package publish

import (
	"context"
	"errors"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// maxShared bounds the objects that a set of onlyShared holds: 32 MiB and as much again for the map.
const maxShared = 1 << 20

// sharedSet are the objects that are not announced because pins with the label meta.SharedLabel alone lead
// to them.
type sharedSet struct {
	roots map[b3.Root]struct{}
	full  bool   // there are more than maxShared, so no object counts as announced
	as    uint64 // the changes of pins that it knows of
}

func (s sharedSet) has(root b3.Root) bool {
	_, ok := s.roots[root]
	return ok || s.full
}

// PinsChanged makes the publisher look at the pins again before it answers whether an object is only
// shared. It does not wait.
func (b *Publisher) PinsChanged() { b.changes.Add(1) }

// isOnlyShared reports whether pins with the label meta.SharedLabel alone lead to root.
func (b *Publisher) isOnlyShared(ctx context.Context, root b3.Root) bool {
	as := b.changes.Load()
	if s := b.shared.Load(); s != nil && s.as == as {
		return s.has(root)
	}
	s := b.onlyShared(ctx)
	s.as = as
	if ctx.Err() == nil { // else the set may not be complete
		b.shared.Store(&s)
	}
	return s.has(root)
}

// onlyShared walks the pins. What cannot be read to the end is not announced: the set is full then.
func (b *Publisher) onlyShared(ctx context.Context) sharedSet {
	s := sharedSet{roots: map[b3.Root]struct{}{}}
	for _, shared := range []bool{true, false} {
		if len(s.roots) == 0 && !shared {
			break
		}
		for p, err := range b.deps.Store.Pins(ctx) {
			if err != nil {
				return sharedSet{full: true}
			}
			if (p.Label == meta.SharedLabel) != shared {
				continue
			}
			err := b.each(ctx, p, func(root b3.Root) bool {
				if shared {
					s.roots[root] = struct{}{}
				} else {
					delete(s.roots, root)
				}
				return len(s.roots) <= maxShared
			})
			if err != nil && shared {
				b.deps.Log.Warn("shared objects cannot be told from others, so nothing is announced", "root", p.Root, "err", err)
				return sharedSet{full: true}
			}
		}
	}
	return s
}

// each calls yield for the object of a pin and what is below it. The error is errEnough if yield returned
// false.
func (b *Publisher) each(ctx context.Context, p meta.Pin, yield func(b3.Root) bool) error {
	if !yield(p.Root) {
		return errEnough
	}
	if !p.Recursive {
		return nil
	}
	err := b.below(ctx, p.Root, yield)
	if status.Of(err) == status.BadRequest && !errors.Is(err, errEnough) {
		return nil // a file has nothing below it
	}
	return err
}
