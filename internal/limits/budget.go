package limits

import "context"

// Budget bounds the bytes that are in use at one time. Callers that wait are
// served in the order in which they came.
type Budget struct {
	m *meter
	s *permits
}

// NewBudget returns a budget of bytes (≥ 1).
func (r *Registry) NewBudget(s Spec, bytes int64) *Budget {
	return &Budget{m: r.add(s, KindBudget, bytes, nil), s: newPermits(bytes)}
}

// Resize sets the budget to n bytes, which must be at least what any caller takes at once. Bytes
// that are in use beyond n stay so until they are released.
func (b *Budget) Resize(n int64) {
	b.m.size.Store(n)
	b.s.resize(n)
}

// Acquire waits until n bytes are free and takes them. It returns ctx's error if
// ctx ends first, and status.Busy if n exceeds the whole budget. The caller
// matches every success with one Release of the same n.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n > b.m.cap() {
		return b.m.refuse(n)
	}
	if err := b.s.acquire(ctx, n); err != nil {
		return err
	}
	b.m.take(n)
	return nil
}

// Take takes n bytes if they are free now, and reports whether it did. It counts
// no refusal, because the caller may wait with Acquire instead.
func (b *Budget) Take(n int64) bool {
	if !b.s.tryAcquire(n) {
		return false
	}
	b.m.take(n)
	return true
}

// TryAcquire takes n bytes, or returns status.Busy if they are not free now.
func (b *Budget) TryAcquire(n int64) error {
	if !b.s.tryAcquire(n) {
		return b.m.refuse(n)
	}
	b.m.take(n)
	return nil
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) {
	b.m.give(n)
	b.s.release(n)
}

// Refuse counts a refusal of n bytes and returns it: status.Busy, with the
// estimated wait. Owners call it when they take bytes away from a user in favour
// of another.
func (b *Budget) Refuse(n int64) error { return b.m.refuse(n) }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 { return b.m.inUse() }

// BudgetFamily is a set of budgets under one limit, one for each peer. Refusals
// are those of all budgets together; current and peak are those of the fullest.
// The caller owns the budgets and bounds their number.
type BudgetFamily struct{ m *meter }

// NewBudgetFamily lists a limit for budgets of bytes (≥ 1) each. fullest returns
// how many bytes the fullest budget has taken; if it is nil, the family counts that.
func (r *Registry) NewBudgetFamily(s Spec, bytes int64, fullest func() int64) *BudgetFamily {
	return &BudgetFamily{m: r.addFamily(s, KindBudget, bytes, fullest)}
}

// Budget returns a new, unused budget of the family.
func (f *BudgetFamily) Budget() *Budget {
	m := newMeter(f.m.spec, f.m.kind, f.m.cap())
	m.family = f.m
	return &Budget{m: m, s: newPermits(m.cap())}
}
