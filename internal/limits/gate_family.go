package limits

import (
	"sync/atomic"
	"time"

	"allium/protocols/status"
)

// GateFamily is a set of gates without a line under one limit, one gate for
// each peer, session or client. The caller owns the gates and bounds their
// number. What the family has in use is what its fullest gate has.
type GateFamily struct {
	m  *meter
	at []atomic.Int64 // at[n]: gates with n+1 places taken
}

// NewGateFamily describes gates of n places each (≥ 1).
func (r *Registry) NewGateFamily(s Spec, n int64) *GateFamily {
	f := &GateFamily{at: make([]atomic.Int64, n)}
	f.m = r.add(s, KindGate, n, f.fullest)
	return f
}

// Gate returns a new empty gate of the family.
func (f *GateFamily) Gate() *FamilyGate { return &FamilyGate{f: f} }

func (f *GateFamily) fullest() int64 {
	for n := len(f.at); n > 0; n-- {
		if f.at[n-1].Load() > 0 {
			return int64(n)
		}
	}
	return 0
}

// FamilyGate is one gate of a GateFamily.
type FamilyGate struct {
	f     *GateFamily
	used  atomic.Int64
	drain drainRate
}

// TryAcquire takes a place, or returns status.Quota with the estimated wait when
// all are taken. Every success is matched by one Release.
func (g *FamilyGate) TryAcquire() error {
	m := g.f.m
	for {
		used := g.used.Load()
		if used >= m.cap {
			m.rejected.Add(1)
			return status.BusyError(status.Quota, status.Limit{Name: m.spec.Name, Current: used, Cap: m.cap, RetryAfter: clampWait(g.drain.wait(1))})
		}
		if g.used.CompareAndSwap(used, used+1) {
			g.f.moved(used, used+1)
			m.raise(used + 1)
			return nil
		}
	}
}

// Release gives a place back.
func (g *FamilyGate) Release() {
	used := g.used.Add(-1)
	g.f.moved(used+1, used)
	g.drain.done(1, time.Now())
}

// moved counts a gate among those with as many places taken.
func (f *GateFamily) moved(from, to int64) {
	if to > 0 {
		f.at[to-1].Add(1)
	}
	if from > 0 {
		f.at[from-1].Add(-1)
	}
}
