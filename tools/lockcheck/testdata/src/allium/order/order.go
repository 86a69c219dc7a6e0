// Package order takes locks under locks.
package order

import "sync"

type config struct {
	mu sync.Mutex // lock: config
}

type table struct {
	mu sync.Mutex // guards what follows; lock: metadata, before entry.mu
	es []*entry
}

type entry struct {
	mu sync.Mutex // lock: metadata
}

type breaker struct {
	mu sync.Mutex // lock: breaker
}

type counter struct {
	mu sync.RWMutex // lock: leaf
}

func good(c *config, t *table, e *entry, b *breaker, n *counter) {
	c.mu.Lock()
	t.mu.Lock()
	e.mu.Lock()
	b.mu.Lock()
	n.mu.RLock()
	n.mu.RUnlock()
	b.mu.Unlock()
	e.mu.Unlock()
	t.mu.Unlock()
	c.mu.Unlock()
}

func bad(c *config, t *table, e *entry, b *breaker, n, m *counter) {
	t.mu.Lock()
	c.mu.Lock() // want `order.table.mu \(metadata\) is held, and order.config.mu \(config\) is not declared`
	c.mu.Unlock()
	t.mu.Unlock()

	e.mu.Lock()
	t.mu.Lock() // want `order.entry.mu \(metadata\) is held, and order.table.mu \(metadata\) is not declared`
	t.mu.Unlock()
	e.mu.Unlock()

	n.mu.Lock()
	b.mu.Lock() // want `order.counter.mu is declared a leaf, and order.breaker.mu is locked under it`
	b.mu.Unlock()
	m.mu.RLock() // want `order.counter.mu is locked while one of that name is held`
	m.mu.RUnlock()
	n.mu.Unlock()
}

type none struct {
	mu sync.Mutex // want `order.none.mu: its comment does not say its place in the order of locks`
}

type unknownPlace struct {
	mu sync.Mutex // lock: last; // want `there is no place last: use config, metadata, breaker, leaf`
}

type odd struct {
	mu sync.Mutex // lock: leaf because it is; // want `"lock: leaf because it is" is neither a place`
}

type two struct {
	mu sync.Mutex // lock: leaf; lock: config; // want `its comment declares two places`
}

type leafBefore struct {
	mu sync.Mutex // lock: leaf, before entry.mu; // want `nothing is locked under a leaf`
}

type idle struct {
	mu sync.Mutex // lock: metadata; // want `nothing is locked under order.idle.mu: declare it a leaf`
}

type unusedBefore struct {
	mu sync.Mutex // lock: metadata, before counter.mu and entry.mu; // want `counter.mu is never locked under order.unusedBefore.mu`
}

func (u *unusedBefore) use(e *entry) {
	u.mu.Lock()
	e.mu.Lock()
	e.mu.Unlock()
	u.mu.Unlock()
}

type hen struct {
	mu sync.Mutex // lock: metadata, before egg.mu; // want `order.hen.mu is declared to be before itself`
}

type egg struct {
	mu sync.Mutex // lock: metadata, before hen.mu; // want `order.egg.mu is declared to be before itself`
}

func circle(h *hen, e *egg) {
	h.mu.Lock()
	e.mu.Lock()
	e.mu.Unlock()
	h.mu.Unlock()
	e.mu.Lock()
	h.mu.Lock()
	h.mu.Unlock()
	e.mu.Unlock()
}
