package limits

import (
	"container/list"
	"context"
	"sync"
	"time"

	"allium/protocols/status"
)

// FairBudget bounds the bytes that many holders have together, and is fair between keys, such as the networks that
// peers come from. Each holder, such as a stream, takes bytes piece by piece as it needs them.
//
// A holder gets the bytes that it asks for while they are free. When they are not,
// holders of keys that have more bytes are evicted for it: keys that have at least
// as many as the holder's key would have afterwards. The key with the most bytes
// loses its largest holder first, and of equal holders the one that took its bytes
// first. If no key has so many, the holder waits for bytes that others give back.
// When bytes become free, the waiting holder whose key would have the fewest is
// served first, and of equal ones the latest. A wait that lasts too long ends with
// status.Busy.
//
// Invariants: the bytes of all holders together are at most the capacity; at most
// maxBudgetWaiters holders wait; no callback runs under the lock.
type FairBudget[K comparable] struct {
	m    *meter
	wait time.Duration // bounds the wait of a holder

	mu      sync.Mutex // guards what follows, and most fields of holders; lock: breaker
	used    int64
	keys    map[K]*budgetKey[K] // the keys that have bytes
	waiters list.List           // of *budgetWaiter[K], oldest first; at most one for each holder
	taken   uint64              // how often bytes were taken
}

// maxBudgetWaiters bounds the holders that wait. When as many wait, the waiter
// whose key would have the most bytes is refused in favour of a new one.
const maxBudgetWaiters = 1024

// budgetKey has the bytes and holders of one key.
type budgetKey[K comparable] struct {
	used    int64
	holders map[*Holder[K]]struct{} // the holders that have bytes
}

// budgetWaiter is a holder that waits for n bytes.
type budgetWaiter[K comparable] struct {
	h       *Holder[K]
	n       int64
	at      *list.Element // nil: the wait has ended
	granted chan struct{} // closed when the holder gets the bytes
	refused chan struct{} // closed when the holder is evicted, or another waiter gets its place
}

// Holder has bytes of a FairBudget for one key. Only one goroutine at a time may
// call its methods.
type Holder[K comparable] struct {
	of    *FairBudget[K]
	key   K
	evict func(error)

	// Guarded by FairBudget.mu.
	n       int64
	since   uint64 // FairBudget.taken when the holder took its first bytes
	evicted bool
	closed  bool
}

// NewFairBudget returns a budget of bytes (≥ 1) for which a holder waits at most
// wait.
func NewFairBudget[K comparable](r *Registry, s Spec, bytes int64, wait time.Duration) *FairBudget[K] {
	return &FairBudget[K]{m: r.add(s, KindBudget, bytes, nil), wait: wait, keys: map[K]*budgetKey[K]{}}
}

// Hold returns a holder for the key k that has no bytes yet. The caller closes it.
// evict is called at most once, from any goroutine, when other holders need the
// bytes. It must not block, and the caller closes the holder soon afterwards.
func (m *FairBudget[K]) Hold(k K, evict func(error)) *Holder[K] {
	return &Holder[K]{of: m, key: k, evict: evict}
}

// TryGrow takes n more bytes if they are free and nobody waits, and reports whether
// it did.
func (h *Holder[K]) TryGrow(n int64) bool {
	m := h.of
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiters.Len() == 0 && h.take(n)
}

// take takes n bytes if they are free. The caller holds the lock.
func (h *Holder[K]) take(n int64) bool {
	m := h.of
	if h.evicted || h.closed || m.used+n > m.m.cap() {
		return false
	}
	k := m.keys[h.key]
	if k == nil {
		k = &budgetKey[K]{holders: map[*Holder[K]]struct{}{}}
		m.keys[h.key] = k
	}
	k.holders[h] = struct{}{}
	m.taken++
	if h.n == 0 {
		h.since = m.taken
	}
	m.used += n
	k.used += n
	h.n += n
	m.m.take(n)
	return true
}

// Grow waits until n more bytes are free and takes them. It returns status.Busy if
// the bound of the wait has passed or the holder was evicted, and ctx's cause if
// ctx ends first.
func (h *Holder[K]) Grow(ctx context.Context, n int64) error {
	if h.TryGrow(n) {
		return nil
	}
	m := h.of
	w, evicted, err := m.queue(h, n)
	if err != nil {
		return err
	}
	evicted.evict(m)
	timer := time.NewTimer(m.wait)
	defer timer.Stop()
	select {
	case <-w.granted:
		return nil
	case <-w.refused:
		return m.m.refuse(n)
	case <-timer.C:
	case <-ctx.Done():
	}
	if !m.leave(w) { // the wait ended at the same time
		select {
		case <-w.granted:
			return nil
		default:
			return m.m.refuse(n)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return m.m.refuse(n)
}

// victims are holders that are evicted.
type victims[K comparable] []*Holder[K]

// evict calls back each victim. The lock must not be held.
func (v victims[K]) evict(m *FairBudget[K]) {
	for _, h := range v {
		h.evict(m.m.refuse(0))
	}
}

// queue adds h to the waiters, and selects the holders to be evicted for it.
func (m *FairBudget[K]) queue(h *Holder[K], n int64) (*budgetWaiter[K], victims[K], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.evicted || h.closed {
		return nil, nil, status.Errorf(status.Busy,
			"%s is full, and this stream gave its bytes to others", m.m.spec.Name)
	}
	if n > m.m.cap() {
		return nil, nil, m.m.refuse(n)
	}
	if m.waiters.Len() >= maxBudgetWaiters {
		most := m.waiter(func(a, b int64) bool { return a > b }, func(*budgetWaiter[K]) bool { return true })
		if m.share(most) <= m.usedBy(h.key)+n {
			return nil, nil, m.m.refuse(n)
		}
		m.drop(most)
		close(most.refused)
	}
	w := &budgetWaiter[K]{h: h, n: n, granted: make(chan struct{}), refused: make(chan struct{})}
	w.at = m.waiters.PushBack(w)
	v := m.selectVictims(h, n)
	m.serve()
	return w, v, nil
}

// usedBy returns how many bytes a key has. The caller holds the lock.
func (m *FairBudget[K]) usedBy(key K) int64 {
	if k := m.keys[key]; k != nil {
		return k.used
	}
	return 0
}

// share returns how many bytes the key of a waiter would have if the waiter were
// served. The caller holds the lock.
func (m *FairBudget[K]) share(w *budgetWaiter[K]) int64 { return m.usedBy(w.h.key) + w.n }

// waiter returns the first waiter by the order before of their shares, among those
// that match, or nil if none does. The caller holds the lock.
func (m *FairBudget[K]) waiter(
	before func(a, b int64) bool, match func(*budgetWaiter[K]) bool,
) (first *budgetWaiter[K]) {
	var least int64
	for e := m.waiters.Front(); e != nil; e = e.Next() {
		w := e.Value.(*budgetWaiter[K])
		if share := m.share(w); match(w) && (first == nil || before(share, least)) {
			first, least = w, share
		}
	}
	return first
}

// drop removes a waiter. The caller holds the lock.
func (m *FairBudget[K]) drop(w *budgetWaiter[K]) {
	m.waiters.Remove(w.at)
	w.at = nil
}

// selectVictims marks holders as evicted until h has n bytes to expect. It takes
// them from keys that have at least as many bytes as the key of h would have. The
// bytes of holders that were evicted earlier, and have not given them back yet,
// count as expected. The caller holds the lock.
func (m *FairBudget[K]) selectVictims(h *Holder[K], n int64) (v victims[K]) {
	expected := m.m.cap() - m.used
	for e := m.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*budgetWaiter[K]); m.share(w) < m.usedBy(h.key)+n { // it is served before h
			expected -= w.n
		}
	}
	left := make(map[K]int64, len(m.keys))
	for name, k := range m.keys {
		left[name] = k.used
		for o := range k.holders {
			if o.evicted {
				expected += o.n
				left[name] -= o.n
			}
		}
	}
	for expected < n {
		var largest *Holder[K]
		var most, least int64 = 0, left[h.key] + n // most: the bytes of the key of largest
		for name, used := range left {
			if used < max(most, least) || name == h.key {
				continue
			}
			for o := range m.keys[name].holders {
				if !o.evicted && (largest == nil || used > most || o.n > largest.n || o.n == largest.n &&
					o.since < largest.since) {
					largest, most = o, used
				}
			}
		}
		if largest == nil {
			return v
		}
		largest.evicted = true
		m.refuse(largest)
		expected += largest.n
		left[largest.key] -= largest.n
		v = append(v, largest)
	}
	return v
}

// refuse ends the wait of a holder, if it waits. The caller holds the lock.
func (m *FairBudget[K]) refuse(h *Holder[K]) {
	noOrder := func(int64, int64) bool { return false }
	if w := m.waiter(noOrder, func(w *budgetWaiter[K]) bool { return w.h == h }); w != nil {
		m.drop(w)
		close(w.refused)
	}
}

// serve gives free bytes to waiters. The caller holds the lock.
func (m *FairBudget[K]) serve() {
	for {
		free := m.m.cap() - m.used
		w := m.waiter(func(a, b int64) bool { return a <= b },
			func(w *budgetWaiter[K]) bool { return w.n <= free && !w.h.closed })
		if w == nil || !w.h.take(w.n) {
			return
		}
		m.drop(w)
		close(w.granted)
	}
}

// leave ends a wait. It returns false if the wait has ended already.
func (m *FairBudget[K]) leave(w *budgetWaiter[K]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.at == nil {
		return false
	}
	m.drop(w)
	return true
}

// Shrink gives n bytes back.
func (h *Holder[K]) Shrink(n int64) {
	if n == 0 {
		return
	}
	m := h.of
	m.mu.Lock()
	defer m.mu.Unlock()
	h.shrink(n)
}

// shrink gives n bytes back and serves waiters. The caller holds the lock.
func (h *Holder[K]) shrink(n int64) {
	m, k := h.of, h.of.keys[h.key]
	m.used -= n
	k.used -= n
	h.n -= n
	if h.n == 0 {
		delete(k.holders, h)
	}
	if k.used == 0 {
		delete(m.keys, h.key)
	}
	m.m.give(n)
	m.serve()
}

// Close gives all bytes back. Further calls do nothing.
func (h *Holder[K]) Close() {
	m := h.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	if h.n > 0 {
		h.shrink(h.n)
	}
}
