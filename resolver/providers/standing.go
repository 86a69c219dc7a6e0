package providers

import (
	"math"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/sony/gobreaker/v2"

	"allium/protocols/status"
)

// standing records the behavior of a peer, apart from its breaker and its throughput. The zero
// value is a stranger. Its methods are safe for concurrent use.
type standing struct {
	mu     sync.Mutex // lock: leaf
	wrong  fading     // claims that proved wrong
	silent fading     // requests that another peer answered, as this one was late
	busyAt time.Time  // when it last refused a request as busy; zero: never
}

const (
	standingHalfLife = 10 * time.Minute // after which what a peer did counts half
	busyFor          = 10 * time.Second // how long a peer counts as recently busy
)

// fading is a count that halves in standingHalfLife. The zero value is 0.
type fading struct {
	n  float64 // at the time at
	at time.Time
}

// now returns the count.
func (f *fading) now(now time.Time) float64 {
	if f.n == 0 {
		return 0
	}
	return f.n * math.Exp2(-max(0, now.Sub(f.at).Seconds())/standingHalfLife.Seconds())
}

// add counts one more, up to most.
func (f *fading) add(now time.Time, most float64) { f.n, f.at = min(f.now(now)+1, most), now }

// halve halves the count. A small one becomes 0.
func (f *fading) halve(now time.Time) {
	f.n, f.at = f.now(now)/2, now
	if f.n < 0.1 {
		f.n = 0
	}
}

// refuted records that a claim of the peer proved wrong.
func (s *standing) refuted(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong.add(now, mostWrong)
}

// wasSilent records that the peer was late with a request that another one answered.
func (s *standing) wasSilent(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent.add(now, mostSilent)
}

// kept records that the peer had what it claimed to have.
func (s *standing) kept(now time.Time) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong.n == 0 && s.silent.n == 0 {
		return false
	}
	s.wrong.halve(now)
	s.silent.halve(now)
	return true
}

func (s *standing) refused(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busyAt = now
}

// now returns how many wrong claims and lost requests count, and whether the peer was busy recently.
func (s *standing) now(now time.Time) (wrong, silent float64, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong.now(now), s.silent.now(now), !s.busyAt.IsZero() && now.Sub(s.busyAt) < busyFor
}

// peek returns what is known of a peer, or nil. It does not count as a use, so that
// announced strangers do not displace the peers that were asked.
func (t *peers) peek(p peer.ID) *asked {
	t.mu.Lock()
	defer t.mu.Unlock()
	to, _ := t.table.Peek(p)
	return to
}

// traits returns what requests to p have shown. It knows nothing of a peer that was
// not asked.
func (t *peers) traits(p peer.ID, now time.Time) (known Traits) {
	to := t.peek(p)
	if to == nil {
		return Traits{}
	}
	known.Rate, known.RTT = to.Measured()
	known.Wrong, known.Silent, known.Busy = to.standing.now(now)
	switch to.breaker.Load().State() {
	case gobreaker.StateOpen:
		known.Breaker = BreakerOpen
	case gobreaker.StateHalfOpen:
		known.Breaker = BreakerHalfOpen
	case gobreaker.StateClosed:
	}
	return known
}

// usable reports whether p's breaker lets requests through.
func (t *peers) usable(p peer.ID) bool {
	to := t.peek(p)
	return to == nil || to.breaker.Load().State() != gobreaker.StateOpen
}

// refuted records that p did not have what it claimed to have, or sent false bytes.
func (t *peers) refuted(p peer.ID) {
	t.get(p).standing.refuted(time.Now())
	t.epoch.Add(1)
}

// silent records that p was late with a request that another peer answered.
func (t *peers) silent(p peer.ID) {
	t.get(p).standing.wasSilent(time.Now())
	t.epoch.Add(1)
}

// judge records the outcome of a request to a peer.
func (t *peers) judge(to *asked, err error) {
	if blame(err) == guilty {
		to.down.Store(status.Of(err) == status.TransportDown)
	}
	switch status.Of(err) {
	case status.Busy, status.RateLimit, status.Quota:
		if !IsFinal(err) {
			to.standing.refused(time.Now())
			t.epoch.Add(1)
		}
	}
}

// kept records that p sent verified bytes of what it claimed to have.
func (t *peers) kept(p peer.ID) {
	if to := t.peek(p); to != nil && to.standing.kept(time.Now()) {
		t.epoch.Add(1)
	}
}
