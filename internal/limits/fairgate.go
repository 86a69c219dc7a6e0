package limits

import (
	"sync"
	"time"

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

	mu    sync.Mutex // guards what follows; lock: breaker
	used  int64
	taken map[K]int64 // by key, without the zero key
}

// NewFairGate returns a gate with n places (≥ 1). part (≥ 1) bounds a key to 1/part
// of the free places.
func NewFairGate[K comparable](r *Registry, s Spec, n, part int64) *FairGate[K] {
	p := &FairGate[K]{part: part, taken: map[K]int64{}}
	p.m = r.add(s, KindGate, n, p.inUse)
	return p
}

// NewFairBytes is NewFairGate for n bytes, of which a key takes some at a time with
// EnterN.
func NewFairBytes[K comparable](r *Registry, s Spec, n, part int64) *FairGate[K] {
	p := &FairGate[K]{part: part, taken: map[K]int64{}}
	p.m = r.add(s, KindBudget, n, p.inUse)
	return p
}

// Enter takes a place for k. It returns status.Busy if all are taken, and
// status.Quota if k may take no more. The caller matches every success with one
// Leave.
func (p *FairGate[K]) Enter(k K) error { return p.EnterN(k, 1) }

// EnterN is Enter for n places. The caller matches every success with one LeaveN.
func (p *FairGate[K]) EnterN(k K, n int64) error {
	used, ok := p.enter(k, n)
	switch {
	case ok:
		return nil
	case used+n > p.m.cap():
		return p.m.refuse(n)
	}
	return p.quota(used, n)
}

// quota counts the refusal of n places to a key that may not take them, while used
// places are taken, and returns it.
func (p *FairGate[K]) quota(used, n int64) error {
	return p.m.reject(status.Quota, used, p.m.drain.wait(n))
}

// enter takes n places for k if it may. Otherwise used is how many are taken.
func (p *FairGate[K]) enter(k K, n int64) (used int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.m.cap() || p.over(k, n) {
		return p.used, false
	}
	p.add(k, n)
	return 0, true
}

// over reports whether n more places are too many for k. The caller holds p.mu.
func (p *FairGate[K]) over(k K, n int64) bool {
	var exempt K
	taken := p.taken[k]
	// Before the last of n places, k has n-1 more, and as many fewer are free.
	return k != exempt && taken > 0 && (taken+n-1)*p.part >= p.m.cap()-p.used-(n-1)
}

// add takes n places for k. The caller holds p.mu.
func (p *FairGate[K]) add(k K, n int64) {
	var exempt K
	p.used += n
	if p.used == n {
		p.m.begin()
	}
	p.m.raise(p.used)
	if k != exempt {
		p.taken[k] += n
	}
}

// Leave gives back a place that k took.
func (p *FairGate[K]) Leave(k K) { p.LeaveN(k, 1) }

// LeaveN gives back n places that k took.
func (p *FairGate[K]) LeaveN(k K, n int64) {
	p.leave(k, n)
	p.m.drain.done(n, time.Now())
}

func (p *FairGate[K]) leave(k K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(k, n)
}

// remove gives back n places of k. The caller holds p.mu.
func (p *FairGate[K]) remove(k K, n int64) {
	p.used -= n
	if left := p.taken[k] - n; left > 0 {
		p.taken[k] = left
	} else {
		delete(p.taken, k)
	}
}

// Resize sets the number of places, or bytes, to n (≥ 1). Those that are taken beyond n stay so.
func (p *FairGate[K]) Resize(n int64) { p.m.size.Store(n) }

// Free returns how many places are free.
func (p *FairGate[K]) Free() int64 { return max(0, p.m.cap()-p.inUse()) }

// inUse returns how many places are taken.
func (p *FairGate[K]) inUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
