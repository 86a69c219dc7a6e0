package limits

import (
	"context"
	"math"
)

// Budget bounds the bytes in use. Callers that wait are served in the order in which they came.
type Budget struct{ permits }

// NewBudget returns a budget of bytes (≥ 1), or a family of them.
func (r *Registry) NewBudget(s Spec, bytes int64) *Budget {
	b := &Budget{}
	b.init(s, KindBudget, bytes)
	r.list(&b.m)
	return b
}

// Member returns a new, unused budget of the family.
func (b *Budget) Member() *Budget {
	own := &Budget{}
	own.m.join(&b.m)
	return own
}

// Acquire waits until n bytes are free and takes them. It returns ctx's error if
// ctx ends first, and status.Busy if n exceeds the whole budget. The caller
// matches every success with one Release of the same n.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n > b.m.cap() {
		return b.m.refuse(n)
	}
	if ctx.Err() == nil && b.try(n) {
		return nil
	}
	return b.acquire(ctx, n, math.MaxInt64)
}

// Take takes n bytes if they are free now, and reports whether it did. It counts
// no refusal, because the caller may wait with Acquire instead.
func (b *Budget) Take(n int64) bool { return b.try(n) }

// TryAcquire takes n bytes, or returns status.Busy if they are not free now.
func (b *Budget) TryAcquire(n int64) error { return b.enter(n) }

// Release gives n bytes back.
func (b *Budget) Release(n int64) { b.leave(n) }

// Refuse counts a refusal of n bytes and returns it: status.Busy, with the
// estimated wait. Owners call it when they take bytes away from a user in favour
// of another.
func (b *Budget) Refuse(n int64) error { return b.m.refuse(n) }
