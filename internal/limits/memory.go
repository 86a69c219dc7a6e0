package limits

import (
	"container/list"
	"context"
	"sync"
	"time"

	"allium/protocols/status"
)

// Memory bounds the bytes that many holders have at one time, and is fair between
// keys, such as the networks that peers come from. Each holder, such as a stream,
// takes bytes piece by piece as it needs them.
//
// While bytes are free every holder gets what it asks for. When they are short,
// who asks for a key that would not have more than the key with most is served:
// the largest holder of the key with most is evicted, and of equals the one that
// took its bytes first. Who belongs to the key with most waits for bytes that
// others give back. Of those that wait, the one of the key with least comes first,
// and of equals the latest. A wait ends with status.Busy after a bound.
//
// Invariants: the bytes of all holders together are at most the capacity; at most
// maxMemoryWaiters wait; no call-back runs under the lock.
type Memory[K comparable] struct {
	m    *meter
	wait time.Duration

	mu      sync.Mutex
	used    int64
	keys    map[K]*memoryKey[K] // that hold bytes
	waiters list.List           // of *memoryWaiter[K], oldest first; at most one for each holder
	taken   uint64              // how often bytes were taken
}

// maxMemoryWaiters bounds the holders that wait; the one of the key with most
// gives its place to the next.
const maxMemoryWaiters = 1024

// memoryKey is what one key has.
type memoryKey[K comparable] struct {
	used    int64
	holders map[*Holder[K]]struct{} // that hold bytes
}

// memoryWaiter is a holder that waits for n bytes.
type memoryWaiter[K comparable] struct {
	h       *Holder[K]
	n       int64
	at      *list.Element // nil: it does not wait any more
	granted chan struct{} // closed when the bytes are the holder's
	refused chan struct{} // closed when the holder is evicted, or its place was taken
}

// Holder holds bytes of a Memory for one key. Its methods are for one goroutine.
type Holder[K comparable] struct {
	of      *Memory[K]
	key     K
	evict   func(error)
	n       int64  // guarded by Memory.mu, as what follows
	since   uint64 // of Memory.taken, when it took its first bytes
	evicted bool
	closed  bool
}

// NewMemory returns a memory of that many bytes (≥ 1), for which a holder waits
// at most wait.
func NewMemory[K comparable](r *Registry, s Spec, bytes int64, wait time.Duration) *Memory[K] {
	return &Memory[K]{m: r.add(s, KindBudget, bytes, nil), wait: wait, keys: map[K]*memoryKey[K]{}}
}

// Hold returns a holder of nothing, for the key k. evict is called, at most once
// and from any goroutine, when the holder has to make room: it must not block,
// and the holder is then closed soon. Every holder is closed.
func (m *Memory[K]) Hold(k K, evict func(error)) *Holder[K] {
	return &Holder[K]{of: m, key: k, evict: evict}
}

// TryGrow takes n more bytes if they are free and nobody waits.
func (h *Holder[K]) TryGrow(n int64) bool {
	m := h.of
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiters.Len() == 0 && h.take(n)
}

// take takes n bytes if they are free. The caller holds the lock.
func (h *Holder[K]) take(n int64) bool {
	m := h.of
	if h.evicted || h.closed || m.used+n > m.m.cap {
		return false
	}
	k := m.keys[h.key]
	if k == nil {
		k = &memoryKey[K]{holders: map[*Holder[K]]struct{}{}}
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

// Grow takes n more bytes, waiting until they are free, ctx ends or the bound of
// the wait has passed; then status.Busy, or ctx's error.
func (h *Holder[K]) Grow(ctx context.Context, n int64) error {
	if h.TryGrow(n) {
		return nil
	}
	m := h.of
	w, evicted, err := m.queue(h, n)
	if err != nil {
		return err
	}
	evicted.tell(m)
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
	if !m.leave(w) { // it ended at the same time
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

// victims are holders that make room.
type victims[K comparable] []*Holder[K]

func (v victims[K]) tell(m *Memory[K]) {
	for _, h := range v {
		h.evict(m.m.refuse(0))
	}
}

// queue puts h among those who wait, and picks who makes room for it.
func (m *Memory[K]) queue(h *Holder[K], n int64) (*memoryWaiter[K], victims[K], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.evicted || h.closed {
		return nil, nil, status.Errorf(status.Busy, "this stream made room for others: %s is full", m.m.spec.Name)
	}
	if n > m.m.cap {
		return nil, nil, m.m.refuse(n)
	}
	if m.waiters.Len() >= maxMemoryWaiters {
		most := m.waiter(func(a, b int64) bool { return a > b }, func(*memoryWaiter[K]) bool { return true })
		if m.share(most) <= m.of(h.key)+n {
			return nil, nil, m.m.refuse(n)
		}
		m.drop(most)
		close(most.refused)
	}
	w := &memoryWaiter[K]{h: h, n: n, granted: make(chan struct{}), refused: make(chan struct{})}
	w.at = m.waiters.PushBack(w)
	v := m.makeRoom(h, n)
	m.serve()
	return w, v, nil
}

// of is what a key has. The caller holds the lock.
func (m *Memory[K]) of(key K) int64 {
	if k := m.keys[key]; k != nil {
		return k.used
	}
	return 0
}

// share is what the key of a waiter would have. The caller holds the lock.
func (m *Memory[K]) share(w *memoryWaiter[K]) int64 { return m.of(w.h.key) + w.n }

// waiter returns the first of those that wait and are meant whose share comes
// before the others', or nil. The caller holds the lock.
func (m *Memory[K]) waiter(before func(a, b int64) bool, meant func(*memoryWaiter[K]) bool) (first *memoryWaiter[K]) {
	var its int64
	for e := m.waiters.Front(); e != nil; e = e.Next() {
		w := e.Value.(*memoryWaiter[K])
		if share := m.share(w); meant(w) && (first == nil || before(share, its)) {
			first, its = w, share
		}
	}
	return first
}

// drop ends a wait. The caller holds the lock.
func (m *Memory[K]) drop(w *memoryWaiter[K]) {
	m.waiters.Remove(w.at)
	w.at = nil
}

// makeRoom picks holders of keys that have more than h's key would have, until
// their bytes are enough for n. Bytes of those that were evicted before, and have
// not given them back yet, count. The caller holds the lock.
func (m *Memory[K]) makeRoom(h *Holder[K], n int64) (v victims[K]) {
	coming := m.m.cap - m.used
	for e := m.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*memoryWaiter[K]); m.share(w) < m.of(h.key)+n { // it comes first
			coming -= w.n
		}
	}
	left := make(map[K]int64, len(m.keys))
	for name, k := range m.keys {
		left[name] = k.used
		for o := range k.holders {
			if o.evicted {
				coming += o.n
				left[name] -= o.n
			}
		}
	}
	for coming < n {
		var largest *Holder[K]
		var its, least int64 = 0, left[h.key] + n
		for name, used := range left {
			if used < max(its, least) || name == h.key {
				continue
			}
			for o := range m.keys[name].holders {
				if !o.evicted && (largest == nil || used > its || o.n > largest.n || o.n == largest.n && o.since < largest.since) {
					largest, its = o, used
				}
			}
		}
		if largest == nil {
			return v
		}
		largest.evicted = true
		m.refuse(largest)
		coming += largest.n
		left[largest.key] -= largest.n
		v = append(v, largest)
	}
	return v
}

// refuse ends the wait of a holder. The caller holds the lock.
func (m *Memory[K]) refuse(h *Holder[K]) {
	if w := m.waiter(func(int64, int64) bool { return false }, func(w *memoryWaiter[K]) bool { return w.h == h }); w != nil {
		m.drop(w)
		close(w.refused)
	}
}

// serve gives what is free to those who wait. The caller holds the lock.
func (m *Memory[K]) serve() {
	for {
		free := m.m.cap - m.used
		w := m.waiter(func(a, b int64) bool { return a <= b }, func(w *memoryWaiter[K]) bool { return w.n <= free && !w.h.closed })
		if w == nil || !w.h.take(w.n) {
			return
		}
		m.drop(w)
		close(w.granted)
	}
}

// leave ends a wait; false: it has ended.
func (m *Memory[K]) leave(w *memoryWaiter[K]) bool {
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

// Close gives everything back. It is idempotent.
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

// Used is how many bytes are held.
func (m *Memory[K]) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
