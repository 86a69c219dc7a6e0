package limits

import (
	"context"
	"errors"
	"slices"
	"sync"

	"allium/protocols/status"
)

// KeyedGate counts what each key has in use, under one bound that is the same for
// all keys, and lets those beyond it wait in line. It holds as many gates as keys
// have something in use. A nil KeyedGate has no bound.
type KeyedGate[K comparable] struct {
	family *GateFamily
	mu     sync.Mutex
	gates  map[K]*keyGate
}

// keyGate is one key's.
type keyGate struct {
	*FamilyGate
	n    int             // places taken; guarded by the KeyedGate's mu
	line []chan struct{} // who waits for one of them, in order; closed when it is theirs; also guarded
}

// NewKeyedGate returns a KeyedGate that counts up to most of each key, or nil where
// most is 0: no bound.
func NewKeyedGate[K comparable](r *Registry, s Spec, most int) *KeyedGate[K] {
	if most == 0 {
		return nil
	}
	return &KeyedGate[K]{family: r.NewGateFamily(s, int64(most)), gates: map[K]*keyGate{}}
}

// Enter counts one in at once, or returns busy with the limit.
func (c *KeyedGate[K]) Enter(p K) (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[p]
	if g == nil {
		g = &keyGate{FamilyGate: c.family.Gate()}
		c.gates[p] = g
	}
	var full *status.Error
	if err := g.TryAcquire(); errors.As(err, &full) {
		full.Outcome = status.Busy // quota is for peers
		return nil, full
	}
	g.n++
	return func() { c.leave(p, g) }, nil
}

// Await is Enter that waits in line where the key has all of its places, in a
// place of line meanwhile. It ends with ctx's error, or busy where line is full.
func (c *KeyedGate[K]) Await(ctx context.Context, p K, line *Gate) (leave func(), err error) {
	leave, err = c.Enter(p) // its busy names the client's own limit
	if err == nil || line.Enter() != nil {
		return leave, err
	}
	defer line.Leave()
	turn, g := c.queue(p)
	if g == nil { // a place became free meanwhile
		return c.Enter(p)
	}
	select {
	case <-turn:
		return func() { c.leave(p, g) }, nil
	case <-ctx.Done():
		if !c.unqueue(g, turn) { // it is ours, too late
			c.leave(p, g)
		}
		return nil, ctx.Err()
	}
}

// queue waits behind the others of the key; a nil gate: it has free places.
func (c *KeyedGate[K]) queue(p K) (turn chan struct{}, g *keyGate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g = c.gates[p]
	if g == nil || g.TryAcquire() == nil {
		if g != nil {
			g.Release()
		}
		return nil, nil
	}
	turn = make(chan struct{})
	g.line = append(g.line, turn)
	return turn, g
}

// unqueue gives up waiting; false: a place was handed over already.
func (c *KeyedGate[K]) unqueue(g *keyGate, turn chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(g.line, turn)
	if i < 0 {
		return false
	}
	g.line = slices.Delete(g.line, i, i+1)
	return true
}

// next takes out whoever waits first; nil: nobody does. The place stays taken.
func (c *KeyedGate[K]) next(p K, g *keyGate) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(g.line) > 0 {
		turn := g.line[0]
		g.line = slices.Delete(g.line, 0, 1)
		return turn
	}
	c.release(p, g)
	return nil
}

func (c *KeyedGate[K]) leave(p K, g *keyGate) {
	if turn := c.next(p, g); turn != nil {
		close(turn)
	}
}

// release gives a place back; c.mu is held.
func (c *KeyedGate[K]) release(p K, g *keyGate) {
	g.Release()
	if g.n--; g.n == 0 {
		delete(c.gates, p)
	}
}

// Len returns how many keys have something in use.
func (c *KeyedGate[K]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.gates)
}
