package limits

import (
	"allium/protocols/status"
)

// Usage is a limit that its owner counts and enforces; the registry only lists it.
// An example is a quota that was lowered: more may be in use than is allowed.
type Usage struct{ m *meter }

// NewUsage lists a limit of capacity (≥ 1). used returns how much is in use.
func (r *Registry) NewUsage(s Spec, capacity int64, used func() int64) *Usage {
	return &Usage{m: r.add(s, KindBudget, capacity, used)}
}

// Resize sets the capacity to n (≥ 1).
func (u *Usage) Resize(n int64) { u.m.size.Store(n) }

// Grown raises the peak to what is in use now. The owner calls it after growth.
func (u *Usage) Grown() { u.m.raise(u.m.inUse()) }

// Refuse counts a refusal and returns the limit for the error that reports it.
func (u *Usage) Refuse() status.Limit {
	u.m.rejected.Add(1)
	return status.Limit{Name: u.m.spec.Name, Current: u.m.inUse(), Cap: u.m.cap(), RetryAfter: maxRetryAfter}
}
