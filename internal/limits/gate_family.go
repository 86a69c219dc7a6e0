package limits

import (
	"sync/atomic"
	"time"

	"allium/protocols/status"
)

// GateFamily is a set of gates under one limit, one gate for each peer, session
// or client. Nobody waits at these gates. The caller owns them and bounds their
// number. Current and peak of the limit are those of the fullest gate.
type GateFamily struct {
	m     *meter
	gates []atomic.Int64 // gates[n] counts the gates with n+1 places taken
}

// NewGateFamily lists a limit for gates of n places (≥ 1) each.
func (r *Registry) NewGateFamily(s Spec, n int64) *GateFamily {
	f := &GateFamily{gates: make([]atomic.Int64, n)}
	f.m = r.add(s, KindGate, n, f.fullest)
	return f
}

// Gate returns a new, unused gate of the family.
func (f *GateFamily) Gate() *FamilyGate { return &FamilyGate{f: f} }

// fullest returns how many places of the fullest gate are taken.
func (f *GateFamily) fullest() int64 {
	for n := len(f.gates); n > 0; n-- {
		if f.gates[n-1].Load() > 0 {
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

// TryAcquire takes a place, or returns status.Quota with the estimated wait if
// all are taken. The caller matches every success with one Release.
func (g *FamilyGate) TryAcquire() error {
	m := g.f.m
	for {
		used := g.used.Load()
		if used >= m.cap {
			return m.reject(status.Quota, used, g.drain.wait(1))
		}
		if g.used.CompareAndSwap(used, used+1) {
			g.f.recount(used, used+1)
			m.raise(used + 1)
			return nil
		}
	}
}

// Release gives a place back.
func (g *FamilyGate) Release() {
	used := g.used.Add(-1)
	g.f.recount(used+1, used)
	g.drain.done(1, time.Now())
}

// recount notes that a gate had from places taken and now has to.
func (f *GateFamily) recount(from, to int64) {
	if to > 0 {
		f.gates[to-1].Add(1)
	}
	if from > 0 {
		f.gates[from-1].Add(-1)
	}
}
