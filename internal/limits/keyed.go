package limits

import (
	"context"
	"errors"
	"slices"
	"sync"

	"allium/protocols/status"
)

// KeyedGate bounds how many places each key, such as a client, has at one time.
// The bound is the same for all keys. Further requests of a key may wait in line.
// KeyedGate remembers only the keys that have a place. A nil KeyedGate has no
// bound.
type KeyedGate[K comparable] struct {
	family *GateFamily
	most   int

	mu    sync.Mutex // guards gates, and n and line of each
	gates map[K]*keyGate
}

// keyGate is the gate of one key.
type keyGate struct {
	*FamilyGate
	n    int             // places taken
	line []chan struct{} // one for each request that waits, the oldest first; closed when it gets a place
}

// NewKeyedGate returns a KeyedGate with most places for each key, or nil if most
// is 0.
func NewKeyedGate[K comparable](r *Registry, s Spec, most int) *KeyedGate[K] {
	if most == 0 {
		return nil
	}
	return &KeyedGate[K]{family: r.NewGateFamily(s, int64(most)), most: most, gates: map[K]*keyGate{}}
}

// Enter takes a place of the key p, or returns status.Busy if all are taken. The
// caller calls leave exactly once.
func (c *KeyedGate[K]) Enter(p K) (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enter(p)
}

// enter is Enter with c.mu held.
func (c *KeyedGate[K]) enter(p K) (leave func(), err error) {
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
	if c == nil {
		return func() {}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gates[p]; g != nil && g.n >= c.most {
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
	if len(g.line) > 0 {
		close(g.line[0])
		g.line = slices.Delete(g.line, 0, 1)
		return
	}
	g.Release()
	if g.n--; g.n == 0 {
		delete(c.gates, p)
	}
}
