package limits

import (
	"context"
	"sync"
	"time"
)

// Gate lets N requests run at once, and lets M more wait in the order of their arrival. Further requests get
// status.Busy.
type Gate struct {
	permits
	maxWaiting int64
}

// NewGate returns a gate for n running (≥ 1) and m waiting (≥ 0) requests, or a family of them.
func (r *Registry) NewGate(s Spec, n, m int64) *Gate {
	g := &Gate{maxWaiting: m}
	g.init(s, KindGate, n)
	if s.Each == "" {
		g.m.line = &meterLine{length: g.line}
	}
	r.list(&g.m)
	return g
}

// Member returns a new, unused gate of the family.
func (g *Gate) Member() *Gate {
	own := &Gate{maxWaiting: g.maxWaiting}
	own.m.join(&g.m)
	return own
}

// line returns how many requests wait, and how many may.
func (g *Gate) line() (waiting, maxWaiting int64) { return g.waiting(), g.maxWaiting }

// Acquire waits for a place. It returns status.Busy at once if M others wait, or
// if the estimated wait would last beyond ctx's deadline. It returns ctx's error
// if ctx ends first. The caller calls release; further calls of it do nothing.
func (g *Gate) Acquire(ctx context.Context) (release func(), err error) {
	if !g.try(1) {
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(g.Leave), nil
}

// TryAcquire takes a place, or returns status.Busy if none is free. The caller
// calls release as with Acquire.
func (g *Gate) TryAcquire() (release func(), err error) {
	if err := g.enter(1); err != nil {
		return nil, err
	}
	return sync.OnceFunc(g.Leave), nil
}

// Try takes a place if one is free, without an allocation. It is for callers that wait for a
// place when there is none: nothing is counted as refused. The caller matches every success with
// exactly one Leave.
func (g *Gate) Try() bool { return g.try(1) }

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
func (g *Gate) Enter() error { return g.enter(1) }

// Leave gives back the place that Enter took.
func (g *Gate) Leave() { g.leave(1) }

// wait waits for a place and takes it.
func (g *Gate) wait(ctx context.Context) error {
	ahead := g.waiting()
	if end, ok := ctx.Deadline(); ok && g.m.drain.wait(ahead+1) > time.Until(end) {
		return g.m.refuse(ahead + 1)
	}
	return g.acquire(ctx, 1, g.maxWaiting)
}
