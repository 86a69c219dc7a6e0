package limits

import (
	"slices"
	"sync/atomic"
	"time"

	"allium/protocols/status"
)

// GateFamily is a set of gates under one limit, one gate for each peer, session
// or client. Nobody waits at these gates. The caller owns them and bounds their
// number. Current and peak of the limit are those of the fullest gate.
type GateFamily struct {
	m     *meter
	gates atomic.Pointer[[]atomic.Int64] // [n] counts the gates with n+1 places taken
}

// NewGateFamily lists a limit for gates of n places (≥ 1) each.
func (r *Registry) NewGateFamily(s Spec, n int64) *GateFamily {
	f := &GateFamily{}
	f.m = r.add(s, KindGate, n, f.fullest)
	f.recountAll(n, nil)
	return f
}

// resize gives each gate n places (≥ 1), or with 0 any number, which is not counted. used has the places that are
// taken of each gate. The caller lets nobody take or release a place meanwhile.
func (f *GateFamily) resize(n int64, used []int64) {
	f.m.size.Store(n)
	f.recountAll(n, used)
}

func (f *GateFamily) recountAll(n int64, used []int64) {
	gates := make([]atomic.Int64, max(n, slices.Max(append(used, 0))))
	f.gates.Store(&gates)
	for _, u := range used {
		f.recount(0, u)
	}
}

// Gate returns a new, unused gate of the family.
func (f *GateFamily) Gate() *FamilyGate { return &FamilyGate{f: f} }

// fullest returns how many places of the fullest gate are taken.
func (f *GateFamily) fullest() int64 {
	gates := *f.gates.Load()
	for n := len(gates); n > 0; n-- {
		if gates[n-1].Load() > 0 {
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
		if used >= m.cap() {
			return m.reject(status.Quota, used, g.drain.wait(1))
		}
		if g.used.CompareAndSwap(used, used+1) {
			if used == 0 {
				g.drain.begin(time.Now())
			}
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
	gates := *f.gates.Load()
	if to > 0 {
		gates[to-1].Add(1)
	}
	if from > 0 {
		gates[from-1].Add(-1)
	}
}
