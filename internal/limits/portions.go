package limits

import (
	"sync"
	"time"

	"allium/protocols/status"
)

// Portions is N places that keys, such as networks, have in common, none of which
// can take them all: a key may take one more only while it has fewer than a part
// of those that are free, and a key that has none while any is free. With a part
// of a quarter, a key alone gets a fifth of the places, the next a fifth of what
// that leaves, and so on: to fill a thousand places takes some thirty keys.
// Nobody waits.
//
// The zero key stands for all that is not shared out: it counts, and may take
// what is left.
//
// Invariants: the places taken are at most N; only keys that have places are
// remembered; every method takes constant time.
type Portions[K comparable] struct {
	m    *meter
	part int64

	mu   sync.Mutex
	used int64
	of   map[K]int64 // keys but for the zero key
}

// NewPortions returns n places (≥ 1), of whose free ones a key may have one part-th
// (part ≥ 1).
func NewPortions[K comparable](r *Registry, s Spec, n, part int64) *Portions[K] {
	p := &Portions[K]{part: part, of: map[K]int64{}}
	p.m = r.add(s, KindGate, n, func() int64 { return n - p.Free() })
	return p
}

// Enter takes a place for k. It returns status.Busy when all are taken and
// status.Quota when k has its part. Every success is matched by one
// Leave.
func (p *Portions[K]) Enter(k K) error {
	used, ok := p.enter(k)
	switch {
	case ok:
		return nil
	case used >= p.m.cap:
		return p.m.refuse(1)
	}
	return p.quota(used)
}

// quota refuses a key that has its part while used places are taken.
func (p *Portions[K]) quota(used int64) error {
	p.m.rejected.Add(1)
	return status.BusyError(status.Quota, status.Limit{Name: p.m.spec.Name, Current: used, Cap: p.m.cap, RetryAfter: clampWait(p.m.drain.wait(1))})
}

// enter returns how many places are taken when k gets none.
func (p *Portions[K]) enter(k K) (used int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == p.m.cap || p.over(k) {
		return p.used, false
	}
	p.add(k)
	return 0, true
}

// over reports whether k has its part of the places. The caller holds p.mu.
func (p *Portions[K]) over(k K) bool {
	var all K
	mine := p.of[k]
	return k != all && mine > 0 && mine*p.part >= p.m.cap-p.used
}

// add takes a place for k. The caller holds p.mu.
func (p *Portions[K]) add(k K) {
	var all K
	p.used++
	p.m.raise(p.used)
	if k != all {
		p.of[k]++
	}
}

// Leave gives back a place that k took.
func (p *Portions[K]) Leave(k K) {
	p.leave(k)
	p.m.drain.done(1, time.Now())
}

func (p *Portions[K]) leave(k K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(k)
}

// remove gives back a place of k. The caller holds p.mu.
func (p *Portions[K]) remove(k K) {
	p.used--
	if n := p.of[k]; n > 1 {
		p.of[k] = n - 1
	} else {
		delete(p.of, k)
	}
}

// Free is how many places are free.
func (p *Portions[K]) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m.cap - p.used
}
