package upkeep

import (
	"context"
	"sync"

	"allium/protocols/status"
	"allium/store/meta"
)

// Pinned takes over the target of a pin that was just set, and has the next tick look at what is below, so that nobody
// waits for a pass over all pins. If too many wait, the pass finds it. The error is not_ready if this node plans as
// many objects as it can.
func (f *finder) Pinned(ctx context.Context, p meta.Pin) error {
	if p.Recursive {
		f.pinned.add(p)
	}
	defer f.wakeUp()
	if err := f.raise(ctx, p); err != nil {
		if !p.Recursive {
			f.pinned.add(p)
		}
		if status.Of(err) != status.Busy {
			return err
		}
	}
	f.inv.mu.Lock()
	defer f.inv.mu.Unlock()
	if p.Target.Wants() && f.inv.entryFor(p.Root) == nil && f.inv.len() >= f.inv.limit {
		return status.Errorf(status.NotReady,
			"this node plans %d objects, and no more; its copies are made once there is "+
				"room: remove pins, or pin it on another node of the cluster", f.inv.limit)
	}
	return nil
}

// pinnedPins has the pins that the next tick looks at first, in the order in which they were set. It is safe for
// concurrent use.
type pinnedPins struct {
	mu   sync.Mutex // lock: leaf
	pins []meta.Pin // at most maxPinned
}

// add has the next tick look at a pin, unless too many wait.
func (q *pinnedPins) add(p meta.Pin) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pins) < maxPinned {
		q.pins = append(q.pins, p)
	}
}

// list returns the pins. They wait until remove is called.
func (q *pinnedPins) list() []meta.Pin {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pins
}

// remove removes the first n pins.
func (q *pinnedPins) remove(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pins = q.pins[n:]
}

// lookAtPinned takes over the targets of pins that were just set.
func (f *finder) lookAtPinned(ctx context.Context) {
	pins := f.pinned.list()
	defer f.pinned.remove(len(pins)) // till then no target counts as met
	for _, p := range pins {
		err := f.raise(ctx, p)
		if p.Recursive && err == nil {
			err = f.raiseBelow(ctx, p)
		}
		if err != nil && ctx.Err() == nil {
			f.deps.Log.Warn("the target of a new pin is planned later", "root", p.Root, "err", err)
		}
	}
}

func (f *finder) raiseBelow(ctx context.Context, p meta.Pin) error {
	for root, err := range f.deps.Below(ctx, p.Root) {
		if err != nil {
			return err
		}
		p.Root = root
		if err := f.raise(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
