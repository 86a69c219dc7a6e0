package admission

import (
	"sync"

	"allium/protocols/status"
)

// GateFamily is a set of gates without a line under one limit, one gate for
// each peer or client. The caller owns the gates and bounds their number. What
// the family has in use is what its fullest gate has.
type GateFamily struct {
	m *meter

	mu sync.Mutex
	at []int64 // at[n]: gates with n+1 places taken; as long as the peak
}

// NewGateFamily describes gates of n places each (≥ 1).
func (r *Registry) NewGateFamily(s Spec, n int64) *GateFamily {
	f := &GateFamily{}
	f.m = r.add(s, KindGate, n, f.fullest)
	return f
}

// Gate returns a new empty gate of the family.
func (f *GateFamily) Gate() *FamilyGate { return &FamilyGate{f: f} }

func (f *GateFamily) fullest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := len(f.at); n > 0; n-- {
		if f.at[n-1] > 0 {
			return int64(n)
		}
	}
	return 0
}

// FamilyGate is one gate of a GateFamily.
type FamilyGate struct {
	f    *GateFamily
	used int64 // guarded by f.mu
}

// TryAcquire takes a place, or returns status.Quota when all are taken. Every
// success is matched by one Release.
func (g *FamilyGate) TryAcquire() error {
	if used := g.move(1); used > 0 {
		g.f.m.raise(used)
		return nil
	}
	m := g.f.m
	m.rejected.Add(1)
	return status.BusyError(status.Quota, status.Limit{Name: m.spec.Name, Current: m.cap, Cap: m.cap, RetryAfter: minRetryAfter})
}

// Release gives a place back.
func (g *FamilyGate) Release() { g.move(-1) }

// move changes the places taken by one and returns how many they are then; it
// changes nothing and returns 0 when one more would be too many.
func (g *FamilyGate) move(by int64) int64 {
	f := g.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if by > 0 && g.used == f.m.cap {
		return 0
	}
	if g.used > 0 {
		f.at[g.used-1]--
	}
	g.used += by
	if g.used > int64(len(f.at)) {
		f.at = append(f.at, 0)
	}
	if g.used > 0 {
		f.at[g.used-1]++
	}
	return g.used
}
