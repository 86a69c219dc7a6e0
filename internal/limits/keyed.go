package limits

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"allium/protocols/status"
)

// KeyedGate bounds how many places each key, such as a client, has at one time.
// The bound is the same for all keys. Further requests of a key may wait in line.
// KeyedGate remembers only the keys that have a place. A nil KeyedGate has no
// bound, and one that bounds a key to 0 places has none either.
type KeyedGate[K comparable] struct {
	family *GateFamily
	most   atomic.Int64 // 0: no bound

	mu    sync.Mutex // guards changes of most, and gates, and n and line of each; lock: breaker
	gates map[K]*keyGate
}

// keyGate is the gate of one key.
type keyGate struct {
	*FamilyGate
	n    int             // places taken
	line []chan struct{} // one for each request that waits, the oldest first; closed when it gets a place
}

// NewKeyedGate returns a KeyedGate with most places for each key; 0 is no bound.
func NewKeyedGate[K comparable](r *Registry, s Spec, most int) *KeyedGate[K] {
	c := &KeyedGate[K]{family: r.NewGateFamily(s, max(1, int64(most))), gates: map[K]*keyGate{}}
	c.Resize(most)
	return c
}

// Resize gives each key most places from now on; 0 is no bound. Those that a key has beyond most stay until they are
// left, and those without a bound do not count.
func (c *KeyedGate[K]) Resize(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most.Store(int64(most))
	used := make([]int64, 0, len(c.gates))
	for _, g := range c.gates {
		for len(g.line) > 0 && (most == 0 || g.n < most) {
			g.n++
			g.used.Add(1)
			close(g.line[0])
			g.line = slices.Delete(g.line, 0, 1)
		}
		used = append(used, int64(g.n))
	}
	c.family.resize(int64(most), used)
}

// Enter takes a place of the key p, or returns status.Busy if all are taken. The
// caller calls leave exactly once.
func (c *KeyedGate[K]) Enter(p K) (leave func(), err error) {
	if c == nil || c.most.Load() == 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enter(p)
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

// enter is Enter with c.mu held.
func (c *KeyedGate[K]) enter(p K) (leave func(), err error) {
	if c.most.Load() == 0 {
		return func() {}, nil
	}
	g := c.gates[p]
	if g == nil {
		g = &keyGate{FamilyGate: c.family.Gate()}
		c.gates[p] = g
	}
	var full *status.Error
	if err := g.TryAcquire(); errors.As(err, &full) {
		full.Outcome = status.Busy // status.Quota is for peers only
		return nil, full
	}
	g.n++
	return func() { c.leave(p, g) }, nil
}

// Try takes a place of the key p if one is free. It is for callers that wait for a place when there
// is none: nothing is counted as refused.
func (c *KeyedGate[K]) Try(p K) (leave func(), ok bool) {
	if c == nil || c.most.Load() == 0 {
		return func() {}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gates[p]; g != nil && int64(g.n) >= c.most.Load() {
		return nil, false
	}
	leave, err := c.enter(p)
	return leave, err == nil
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
	granted, g := c.queue(p)
	if g == nil { // a place became free meanwhile
		return c.Enter(p)
	}
	select {
	case <-granted:
		return func() { c.leave(p, g) }, nil
	case <-ctx.Done():
		if !c.unqueue(g, granted) { // the place was granted at the same time
			c.leave(p, g)
		}
		return nil, ctx.Err()
	}
}

// queue joins the line of p. It returns a nil gate if p has a free place.
func (c *KeyedGate[K]) queue(p K) (granted chan struct{}, g *keyGate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g = c.gates[p]
	if g == nil || g.TryAcquire() == nil {
		if g != nil {
			g.Release()
		}
		return nil, nil
	}
	granted = make(chan struct{})
	g.line = append(g.line, granted)
	return granted, g
}

// unqueue leaves the line. It returns false if the place has been granted.
func (c *KeyedGate[K]) unqueue(g *keyGate, granted chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(g.line, granted)
	if i < 0 {
		return false
	}
	g.line = slices.Delete(g.line, i, i+1)
	return true
}

// leave gives a place of p to the request that waits longest, or frees it.
func (c *KeyedGate[K]) leave(p K, g *keyGate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := c.most.Load(); len(g.line) > 0 && (most == 0 || int64(g.n) <= most) {
		close(g.line[0])
		g.line = slices.Delete(g.line, 0, 1)
		return
	}
	g.Release()
	if g.n--; g.n == 0 {
		delete(c.gates, p)
	}
}
