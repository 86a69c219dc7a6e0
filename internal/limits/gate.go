package limits

import (
	"context"
	"sync"
	"time"
)

// Gate lets N requests run at one time, and lets M more wait in the order of
// their arrival. Further requests get status.Busy.
type Gate struct {
	m       *meter
	running *permits

	maxWaiting int64

	mu      sync.Mutex // guards waiting; lock: leaf
	waiting int64
}

// NewGate returns a gate for n running (≥ 1) and m waiting (≥ 0) requests.
func (r *Registry) NewGate(s Spec, n, m int64) *Gate {
	g := &Gate{m: newMeter(s, KindGate, n), running: newPermits(n), maxWaiting: m}
	g.m.line = &meterLine{length: g.line}
	r.list(g.m)
	return g
}

// line returns how many requests wait, and how many may.
func (g *Gate) line() (waiting, maxWaiting int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting, g.maxWaiting
}

// Resize lets n requests (≥ 1) run from now on. Those that run beyond n go on.
func (g *Gate) Resize(n int64) {
	g.m.size.Store(n)
	g.running.resize(n)
}

// Acquire waits for a place. It returns status.Busy at once if M others wait, or
// if the estimated wait would last beyond ctx's deadline. It returns ctx's error
// if ctx ends first. The caller calls release; further calls of it do nothing.
func (g *Gate) Acquire(ctx context.Context) (release func(), err error) {
	if !g.running.tryAcquire(1) {
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
	}
	return g.enter(), nil
}

// TryAcquire takes a place, or returns status.Busy if none is free. The caller
// calls release as with Acquire.
func (g *Gate) TryAcquire() (release func(), err error) {
	if !g.running.tryAcquire(1) {
		return nil, g.m.refuse(1)
	}
	return g.enter(), nil
}

// Try takes a place if one is free, without an allocation. It is for callers that wait for a
// place when there is none: nothing is counted as refused. The caller matches every success with
// exactly one Leave.
func (g *Gate) Try() bool {
	if !g.running.tryAcquire(1) {
		return false
	}
	g.m.take(1)
	return true
}

// Full returns status.Busy if Acquire would return it at once, because M others wait. It takes no
// place, so a request that it lets pass may still be refused.
func (g *Gate) Full() error {
	waiting, most := g.line()
	if waiting < most || most == 0 {
		return nil
	}
	return g.m.refuse(waiting + 1)
}

// Enter is TryAcquire without an allocation, for hot paths. The caller matches
// every success with exactly one Leave.
func (g *Gate) Enter() error {
	if !g.running.tryAcquire(1) {
		return g.m.refuse(1)
	}
	g.m.take(1)
	return nil
}

// Leave gives back the place that Enter took.
func (g *Gate) Leave() {
	g.m.give(1)
	g.running.release(1)
}

func (g *Gate) enter() (release func()) {
	g.m.take(1)
	return sync.OnceFunc(g.Leave)
}

// wait waits for a place in g.running and takes it.
func (g *Gate) wait(ctx context.Context) error {
	g.mu.Lock()
	ahead := g.waiting
	full := ahead >= g.maxWaiting
	if !full {
		g.waiting++
	}
	g.mu.Unlock()
	if full {
		return g.m.refuse(ahead + 1)
	}
	defer func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}()
	if end, ok := ctx.Deadline(); ok && g.m.drain.wait(ahead+1) > time.Until(end) {
		return g.m.refuse(ahead + 1)
	}
	return g.running.acquire(ctx, 1)
}
