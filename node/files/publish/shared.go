package publish

import (
	"context"
	"sync"

	"allium/protocols/b3"
	"allium/store/meta"
)

// maxShared bounds the objects of a sharedSet: 32 MiB and as much again for the map.
const maxShared = 1 << 20

// sharedSet are the objects to which pins with the label meta.SharedLabel lead.
type sharedSet struct {
	roots map[b3.Root]struct{}
	full  bool // there are more than maxShared, or a directory cannot be read: any object may be one of them
}

func (s sharedSet) has(root b3.Root) bool {
	_, ok := s.roots[root]
	return ok || s.full
}

// Run walks the pins whenever somebody asks whether an object is only shared and pins have changed. It returns when
// ctx ends.
func (b *Publisher) Run(ctx context.Context, ready func()) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { b.shared.run(ctx, b.findShared) })
	wg.Go(func() { b.also.run(ctx, b.findAlso) })
	ready()
	<-ctx.Done()
	return nil
}

// PinChanged tells the publisher of a pin that was set or removed. It does not wait. recursive may be true of any pin.
func (b *Publisher) PinChanged(label string, recursive bool) {
	if label == meta.SharedLabel {
		b.shared.changed()
	}
	if recursive || label == meta.SharedLabel {
		b.also.changed() // other pins are looked up
	}
}

// isOnlyShared reports whether pins with the label meta.SharedLabel alone lead to root. It waits for a walk of these
// pins, and for one of all others only if they lead to root. If ctx ends first, it returns true.
func (b *Publisher) isOnlyShared(ctx context.Context, root b3.Root) bool {
	shared, err := b.shared.get(ctx)
	if err == nil && !shared.has(root) {
		return false
	}
	for p, err := range b.deps.Store.PinsOf(ctx, root) {
		if err == nil && p.Label != meta.SharedLabel {
			return false
		}
	}
	also, err := b.also.get(ctx)
	return err != nil || !also.has(root)
}

// findShared walks the pins with the label meta.SharedLabel.
func (b *Publisher) findShared(ctx context.Context) (s sharedSet, complete bool) {
	s = sharedSet{roots: map[b3.Root]struct{}{}}
	isShared := func(p meta.Pin) bool { return p.Label == meta.SharedLabel }
	for root, err := range b.deps.Store.Collector().Kept(ctx, isShared) {
		if err != nil || len(s.roots) == maxShared {
			b.deps.Log.Warn("what is shared cannot be told from other objects, so pinned objects alone are announced",
				"root", root, "most", maxShared, "err", err)
			return sharedSet{full: true}, err == nil
		}
		s.roots[root] = struct{}{}
	}
	return s, true
}

// findAlso walks the recursive pins with other labels, and returns the shared objects to which they lead.
func (b *Publisher) findAlso(ctx context.Context) (also sharedSet, complete bool) {
	also = sharedSet{roots: map[b3.Root]struct{}{}}
	shared, err := b.shared.get(ctx)
	if err != nil || shared.full || len(shared.roots) == 0 {
		return also, err == nil && !shared.full
	}
	others := func(p meta.Pin) bool { return p.Label != meta.SharedLabel && p.Recursive }
	complete = true
	for root, err := range b.deps.Store.Collector().Kept(ctx, others) {
		if err != nil { // the objects below that pin are unknown
			complete = false
		} else if shared.has(root) {
			also.roots[root] = struct{}{}
		}
		if len(also.roots) == len(shared.roots) {
			break
		}
	}
	return also, complete
}
