package limits

import (
	"sync"

	"allium/protocols/status"
)

// FairGate is N places, or bytes, that keys, such as networks, share, so that no key
// can take them all. Nobody waits.
//
// A key without a place may take any free ones. A key with places may take one more
// only while it has fewer than 1/part of the free places, and n more if it could take
// them one after another. If part is 4, the first key alone gets a fifth of all places,
// the next a fifth of the rest, and so on: it takes about thirty keys to fill a thousand
// places.
//
// The zero key is exempt: its places count, but it may take all that are free.
//
// Invariants: at most N places are taken; only keys that have places are
// remembered; every method takes constant time.
type FairGate[K comparable] struct {
	m    *meter
	part int64

	mu    sync.Mutex  // guards changes of what is in use, and taken; lock: breaker
	taken map[K]int64 // by key, without the zero key
}

// NewFairGate returns a gate with n places (≥ 1). part (≥ 1) bounds a key to 1/part
// of the free places.
func NewFairGate[K comparable](r *Registry, s Spec, n, part int64) *FairGate[K] {
	return &FairGate[K]{m: r.add(s, KindGate, n, nil), part: part, taken: map[K]int64{}}
}

// NewFairBytes is NewFairGate for n bytes. A key takes several at once with EnterN.
func NewFairBytes[K comparable](r *Registry, s Spec, n, part int64) *FairGate[K] {
	return &FairGate[K]{m: r.add(s, KindBudget, n, nil), part: part, taken: map[K]int64{}}
}

// Enter takes a place for k. It returns status.Busy if all are taken, and
// status.Quota if k may take no more. The caller matches every success with one
// Leave.
func (p *FairGate[K]) Enter(k K) error { return p.EnterN(k, 1) }

// EnterN is Enter for n places. The caller matches every success with one LeaveN.
func (p *FairGate[K]) EnterN(k K, n int64) error {
	switch full, over := p.enter(k, n); {
	case full:
		return p.m.refuse(n)
	case over:
		return p.quota(n)
	}
	return nil
}

// quota counts the refusal of n places to a key that may not take them, and returns it.
func (p *FairGate[K]) quota(n int64) error {
	return p.m.reject(status.Quota, p.m.inUse(), p.m.drain.wait(n))
}

// enter takes n places for k, unless fewer are free, or they are too many for k.
func (p *FairGate[K]) enter(k K, n int64) (full, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full, over = p.m.inUse()+n > p.m.cap(), p.over(k, n)
	if !full && !over {
		p.add(k, n)
	}
	return full, over
}

// over reports whether n more places are too many for k. The caller holds p.mu.
func (p *FairGate[K]) over(k K, n int64) bool {
	var exempt K
	taken := p.taken[k]
	// Before the last of n places, k has n-1 more, and as many fewer are free.
	return k != exempt && taken > 0 && (taken+n-1)*p.part >= p.m.cap()-p.m.inUse()-(n-1)
}

// add takes n places for k. The caller holds p.mu.
func (p *FairGate[K]) add(k K, n int64) {
	var exempt K
	p.m.take(n)
	if k != exempt {
		p.taken[k] += n
	}
}

// Leave gives back a place that k took.
func (p *FairGate[K]) Leave(k K) { p.LeaveN(k, 1) }

// LeaveN gives back n places that k took.
func (p *FairGate[K]) LeaveN(k K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(k, n)
}

// remove gives back n places of k. The caller holds p.mu.
func (p *FairGate[K]) remove(k K, n int64) {
	p.m.give(n)
	if left := p.taken[k] - n; left > 0 {
		p.taken[k] = left
	} else {
		delete(p.taken, k)
	}
}

// Resize sets the number of places, or bytes, to n (≥ 1). Those that are taken beyond n stay so.
func (p *FairGate[K]) Resize(n int64) { p.m.size.Store(n) }

// Free returns how many places are free.
func (p *FairGate[K]) Free() int64 { return max(0, p.m.cap()-p.m.inUse()) }
