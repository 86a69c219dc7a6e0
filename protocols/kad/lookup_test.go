package kad

import (
	"testing"
	"time"
)

// Counts below zero take nothing away from what others found.
func TestNegativeCounts(t *testing.T) {
	t.Parallel()
	quorum := func(p Progress) bool { return p.Providers >= 1 && p.Values >= 1 }
	h := newHarness(t, Find(), Query[uint16]{Self: 99, Quorum: quorum})
	h.begin(0, peersOf(1, 2, 3))
	h.answer(1, 1, Reply[uint16]{Providers: -5, Values: 1})
	h.answer(2, 2, Reply[uint16]{Providers: 1, Values: -5})
	if r := h.l.Result(); r.End != Satisfied {
		t.Errorf("%+v", r)
	}
}

// Whatever the adaptive delay says, it is neither never nor above the fixed one.
func TestHedgeDelayIsBounded(t *testing.T) {
	t.Parallel()
	cfg := Find()
	for _, says := range []time.Duration{-1, 0, 1, time.Hour} {
		h := newHarness(t, cfg, Query[uint16]{Self: 99, HedgeAfter: func(uint16) time.Duration { return says }})
		h.begin(0, peersOf(1, 2, 3, 4, 5))
		if next, _ := h.l.Next(); next != min(max(says, 1), cfg.HedgeAfter) {
			t.Errorf("%v: late at %v", says, next)
		}
	}
}

// Events before the start and after the end do nothing, and time does not run
// backwards.
func TestOutOfTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Find(), Query[uint16]{Self: 99})
	h.l.Tick(time.Second)
	h.l.Fail(time.Second, 1)
	h.l.Answer(time.Second, 1, Reply[uint16]{})
	if r := h.l.Result(); r.End != Running || r.Answers != 0 {
		t.Fatalf("%+v before the start", r)
	}
	h.begin(2*time.Second, peersOf(1, 2))
	if again := h.l.Start(0, peersOf(3)); len(again) > 0 {
		t.Fatalf("a second start: %v", again)
	}
	h.answer(time.Second, 1, Reply[uint16]{})
	h.answer(time.Second, 2, Reply[uint16]{})
	if r := h.l.Result(); r.End != Converged || r.Took != 0 {
		t.Fatalf("%+v", r)
	}
	h.tick(time.Hour)
	h.answer(time.Hour, 2, Reply[uint16]{Closer: peersOf(4)})
}

// TestTargetFirst: a response has k peers, and one more if the first is the target, as kad-dht's has.
func TestTargetFirst(t *testing.T) {
	t.Parallel()
	cfg := Publish()
	cfg.K, cfg.Alpha = 4, 1
	target := peerOf(100)
	for want, closer := range map[int][]Peer[uint16]{
		5: append([]Peer[uint16]{target}, peersOf(2, 3, 4, 5, 6)...),
		4: append(peersOf(2, 3, 4, 5), target),
	} {
		h := newHarness(t, cfg, Query[uint16]{Self: 99, Target: target.Key})
		h.begin(0, peersOf(1))
		h.answer(1, 1, Reply[uint16]{Closer: closer})
		if got := len(h.l.frontier.list) - 1; got != want {
			t.Errorf("%v: the lookup knows %d peers more, want %d", closer, got, want)
		}
	}
}
