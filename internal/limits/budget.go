package limits

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Budget bounds bytes held at one time.
type Budget struct {
	m *meter
	s *semaphore.Weighted
}

// NewBudget returns a budget of that many bytes (≥ 1).
func (r *Registry) NewBudget(s Spec, bytes int64) *Budget {
	return &Budget{m: r.add(s, KindBudget, bytes, nil), s: semaphore.NewWeighted(bytes)}
}

// Acquire waits until n bytes are free, first come first served, and returns
// ctx's error when ctx ends first. n above the whole budget is status.Busy.
// Every Acquire is matched by one Release of the same n.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n > b.m.cap {
		return b.m.refuse(n)
	}
	if err := b.s.Acquire(ctx, n); err != nil {
		return err
	}
	b.m.take(n)
	return nil
}

// Take takes n bytes if they are free now. Otherwise it counts no refusal: the
// caller waits for them with Acquire.
func (b *Budget) Take(n int64) bool {
	if !b.s.TryAcquire(n) {
		return false
	}
	b.m.take(n)
	return true
}

// TryAcquire takes n bytes, or returns status.Busy when they are not free.
func (b *Budget) TryAcquire(n int64) error {
	if !b.s.TryAcquire(n) {
		return b.m.refuse(n)
	}
	b.m.take(n)
	return nil
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) {
	b.m.give(n)
	b.s.Release(n)
}

// Refuse counts the refusal of n bytes and returns it: status.Busy, with the
// estimated wait. It is for what had bytes and has to make room.
func (b *Budget) Refuse(n int64) error { return b.m.refuse(n) }

// Used is how many bytes are taken.
func (b *Budget) Used() int64 { return b.m.now() }

// BudgetFamily is a set of budgets under one limit, one for each peer. It counts
// refusals together; current and peak are those of the fullest budget. The
// caller owns the budgets and bounds their number.
type BudgetFamily struct{ m *meter }

// NewBudgetFamily describes budgets of that many bytes (≥ 1) each, of which
// fullest says how much the fullest has taken.
func (r *Registry) NewBudgetFamily(s Spec, bytes int64, fullest func() int64) *BudgetFamily {
	return &BudgetFamily{m: r.add(s, KindBudget, bytes, fullest)}
}

// Budget returns a new budget of which nothing is taken.
func (f *BudgetFamily) Budget() *Budget {
	m := newMeter(f.m.spec, f.m.kind, f.m.cap)
	m.of = f.m
	return &Budget{m: m, s: semaphore.NewWeighted(m.cap)}
}
