package limits

import (
	"allium/protocols/status"
)

// Usage lists a limit that its owner counts and enforces by itself: a quota,
// say, of which more may be in use than is allowed since it was lowered.
type Usage struct{ m *meter }

// NewUsage lists a limit of capacity (≥ 1) of which now says how much is in use.
func (r *Registry) NewUsage(s Spec, capacity int64, now func() int64) *Usage {
	return &Usage{m: r.add(s, KindBudget, capacity, now)}
}

// Grown notes that more is in use.
func (u *Usage) Grown() { u.m.raise(u.m.now()) }

// Refuse counts a refusal and returns the limit as an error carries it.
func (u *Usage) Refuse() status.Limit {
	u.m.rejected.Add(1)
	return status.Limit{Name: u.m.spec.Name, Current: u.m.now(), Cap: u.m.cap, RetryAfter: maxRetryAfter}
}
