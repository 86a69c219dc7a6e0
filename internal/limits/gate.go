package limits

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Gate lets N requests run and M more wait in order of arrival; the rest get
// status.Busy.
type Gate struct {
	m       *meter
	running *semaphore.Weighted

	mu      sync.Mutex
	waiting int64
	maxWait int64
}

// NewGate returns a gate for n running and m waiting requests. n ≥ 1, m ≥ 0.
func (r *Registry) NewGate(s Spec, n, m int64) *Gate {
	g := &Gate{m: newMeter(s, KindGate, n), running: semaphore.NewWeighted(n), maxWait: m}
	g.m.line = g.line
	r.list(g.m)
	return g
}

func (g *Gate) line() (waiting, room int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting, g.maxWait
}

// Acquire waits for a place. It returns status.Busy at once when M others wait
// or when the estimated wait exceeds what is left of ctx's deadline, and ctx's
// error when ctx ends first. The caller calls release exactly once.
func (g *Gate) Acquire(ctx context.Context) (release func(), err error) {
	if !g.running.TryAcquire(1) {
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
	}
	return g.enter(), nil
}

// TryAcquire is Acquire without waiting.
func (g *Gate) TryAcquire() (release func(), err error) {
	if !g.running.TryAcquire(1) {
		return nil, g.m.refuse(1)
	}
	return g.enter(), nil
}

// Enter is TryAcquire for who asks often: it allocates nothing. Every success is
// matched by one Leave.
func (g *Gate) Enter() error {
	if !g.running.TryAcquire(1) {
		return g.m.refuse(1)
	}
	g.m.take(1)
	return nil
}

// Leave gives back the place that Enter took.
func (g *Gate) Leave() {
	g.m.give(1)
	g.running.Release(1)
}

func (g *Gate) enter() (release func()) {
	g.m.take(1)
	return sync.OnceFunc(g.Leave)
}

func (g *Gate) wait(ctx context.Context) error {
	g.mu.Lock()
	ahead := g.waiting
	full := ahead >= g.maxWait
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
	return g.running.Acquire(ctx, 1)
}
