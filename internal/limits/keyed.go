package limits

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// KeyedGate bounds how many places each key, such as a client, takes at once. The bound is the same for all keys.
// Further requests of a key may wait in line. KeyedGate remembers only the keys that have a place. A nil KeyedGate has
// no bound, and one that bounds a key to 0 places has none either.
type KeyedGate[K comparable] struct {
	m    *meter
	most atomic.Int64 // 0: no bound

	mu    sync.Mutex // guards changes of most, and gates; lock: breaker
	gates map[K]*Gate
}

// NewKeyedGate returns a KeyedGate with most places for each key; 0 is no bound.
func NewKeyedGate[K comparable](r *Registry, s Spec, most int) *KeyedGate[K] {
	c := &KeyedGate[K]{gates: map[K]*Gate{}}
	c.m = r.add(s, KindGate, max(1, int64(most)), c.fullest)
	c.Resize(most)
	return c
}

// Resize gives each key most places from now on; 0 is no bound. Those that a key has beyond most stay until they are
// left, and those without a bound do not count.
func (c *KeyedGate[K]) Resize(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most.Store(int64(most))
	c.m.size.Store(int64(most))
	for _, g := range c.gates {
		g.Resize(cmp.Or(int64(most), math.MaxInt64))
	}
}

// fullest returns how many places the key has that has most.
func (c *KeyedGate[K]) fullest() (most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.gates {
		most = max(most, g.Used())
	}
	return most
}

// gate returns the gate of p, which it makes if needed, or nil if there is no bound. The caller holds c.mu.
func (c *KeyedGate[K]) gate(p K) *Gate {
	if c.most.Load() == 0 {
		return nil
	}
	g := c.gates[p]
	if g == nil {
		g = &Gate{}
		g.m.join(c.m)
		c.gates[p] = g
	}
	return g
}

// Enter takes a place of the key p, or returns status.Busy if all are taken. The
// caller calls leave exactly once.
func (c *KeyedGate[K]) Enter(p K) (leave func(), err error) {
	leave, g := c.take(p)
	if leave == nil {
		return nil, g.m.refuse(1)
	}
	return leave, nil
}

// Try takes a place of the key p if one is free. It is for callers that wait for a place when there
// is none: nothing is counted as refused.
func (c *KeyedGate[K]) Try(p K) (leave func(), ok bool) {
	leave, _ = c.take(p)
	return leave, leave != nil
}

// take takes a place of p at its gate g. If all are taken, leave is nil.
func (c *KeyedGate[K]) take(p K) (leave func(), g *Gate) {
	if c == nil || c.most.Load() == 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g = c.gate(p); g == nil {
		return func() {}, nil
	}
	if !g.try(1) {
		return nil, g
	}
	return func() { c.leave(p, g) }, g
}

// EnterOf is Enter, and takes a permit of all too, which bounds all keys together.
func (c *KeyedGate[K]) EnterOf(p K, all *Gate) (leave func(), err error) {
	done, err := c.Enter(p)
	if err != nil {
		return nil, err
	}
	if err := all.Enter(); err != nil {
		done()
		return nil, err
	}
	return func() { all.Leave(); done() }, nil
}

// Await is Enter, except that it waits for a place of p if all are taken. While it
// waits it has a place of line. It returns status.Busy if line is full, and ctx's
// error if ctx ends first.
func (c *KeyedGate[K]) Await(ctx context.Context, p K, line *Gate) (leave func(), err error) {
	leave, err = c.Enter(p)
	if err == nil || line.Enter() != nil {
		return leave, err // the error names the bound of the key, not that of line
	}
	defer line.Leave()
	g, w := c.join(p)
	if g == nil {
		return func() {}, nil
	}
	if err := g.await(ctx, w); err != nil {
		c.forget(p, g)
		return nil, err
	}
	return func() { c.leave(p, g) }, nil
}

// join joins the line of p. It returns a nil gate if there is no bound.
func (c *KeyedGate[K]) join(p K) (g *Gate, w *permitWaiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g = c.gate(p); g != nil {
		w, _ = g.join(1, math.MaxInt64)
	}
	return g, w
}

// leave gives a place of p back.
func (c *KeyedGate[K]) leave(p K, g *Gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.leave(1) { // so nobody waits either
		delete(c.gates, p)
	}
}

// forget drops the gate of p, at which a request does not wait any more, if nothing of it is in use.
func (c *KeyedGate[K]) forget(p K, g *Gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gates[p] == g && g.idle() {
		delete(c.gates, p)
	}
}
