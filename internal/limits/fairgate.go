package limits

import (
	"sync"
	"time"

	"allium/protocols/status"
)

// FairGate is N places that keys, such as networks, share, so that no key can take
// them all. Nobody waits.
//
// A key without a place may take any free one. A key with places may take one more
// only while it has fewer than 1/part of the free places. If part is 4, the first
// key alone gets a fifth of all places, the next a fifth of the rest, and so on: it
// takes about thirty keys to fill a thousand places.
//
// The zero key is exempt: its places count, but it may take all that are free.
//
// Invariants: at most N places are taken; only keys that have places are
// remembered; every method takes constant time.
type FairGate[K comparable] struct {
	m    *meter
	part int64

	mu    sync.Mutex // guards what follows
	used  int64
	taken map[K]int64 // by key, without the zero key
}

// NewFairGate returns a gate with n places (≥ 1). part (≥ 1) bounds a key to 1/part
// of the free places.
func NewFairGate[K comparable](r *Registry, s Spec, n, part int64) *FairGate[K] {
	p := &FairGate[K]{part: part, taken: map[K]int64{}}
	p.m = r.add(s, KindGate, n, func() int64 { return n - p.Free() })
	return p
}

// Enter takes a place for k. It returns status.Busy if all are taken, and
// status.Quota if k may take no more. The caller matches every success with one
// Leave.
func (p *FairGate[K]) Enter(k K) error {
	used, ok := p.enter(k)
	switch {
	case ok:
		return nil
	case used >= p.m.cap:
		return p.m.refuse(1)
	}
	return p.quota(used)
}

// quota counts the refusal of a key that may take no more, while used places are
// taken, and returns it.
func (p *FairGate[K]) quota(used int64) error {
	return p.m.reject(status.Quota, used, p.m.drain.wait(1))
}

// enter takes a place for k if it may. Otherwise used is how many are taken.
func (p *FairGate[K]) enter(k K) (used int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == p.m.cap || p.over(k) {
		return p.used, false
	}
	p.add(k)
	return 0, true
}

// over reports whether k may take no more places. The caller holds p.mu.
func (p *FairGate[K]) over(k K) bool {
	var exempt K
	taken := p.taken[k]
	return k != exempt && taken > 0 && taken*p.part >= p.m.cap-p.used
}

// add takes a place for k. The caller holds p.mu.
func (p *FairGate[K]) add(k K) {
	var exempt K
	p.used++
	p.m.raise(p.used)
	if k != exempt {
		p.taken[k]++
	}
}

// Leave gives back a place that k took.
func (p *FairGate[K]) Leave(k K) {
	p.leave(k)
	p.m.drain.done(1, time.Now())
}

func (p *FairGate[K]) leave(k K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(k)
}

// remove gives back a place of k. The caller holds p.mu.
func (p *FairGate[K]) remove(k K) {
	p.used--
	if n := p.taken[k]; n > 1 {
		p.taken[k] = n - 1
	} else {
		delete(p.taken, k)
	}
}

// Free returns how many places are free.
func (p *FairGate[K]) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m.cap - p.used
}
