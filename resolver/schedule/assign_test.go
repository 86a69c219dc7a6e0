package schedule

import (
	"testing"
	"time"
)

// What is asked for, and what a provider does not have, is not asked for.
func TestFreeRuns(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	for _, r := range []Run{{40, 50}, {10, 20}, {20, 30}} {
		m.requests = append(m.requests, &request{Progress: Progress{Next: r.Lo}, hi: r.Hi})
	}
	p := &provider{lacks: []Run{{32, 34}}}
	for _, tc := range []struct{ in, out Run }{
		{Run{0, 100}, Run{0, 10}},
		{Run{10, 100}, Run{30, 32}},
		{Run{15, 100}, Run{30, 32}},
		{Run{31, 33}, Run{31, 32}},
		{Run{32, 100}, Run{34, 40}},
		{Run{41, 50}, Run{50, 50}},
		{Run{50, 60}, Run{50, 60}},
	} {
		if got := tc.in.without(m.takenFor(p)); got != tc.out {
			t.Errorf("of %v %v is free, want %v", tc.in, got, tc.out)
		}
	}
	if got := (Run{31, 100}).without(m.takenFor(nil)); got != (Run{31, 40}) {
		t.Errorf("for all: %v", got)
	}
}

// A slow reader pulls no more than its window, and all of it but an eighth.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int64{ReadAhead, 200, LeastAhead} {
		s := &sim{
			harness: newHarness(t, Config{Providers: 4, Tries: 3}), groups: 2 * ReadAhead,
			peers: []*peer{{rtt: time.Millisecond, each: 100 * time.Microsecond},
				{rtt: time.Millisecond, each: 100 * time.Microsecond}},
		}
		s.join(1, Demand{End: -1, Ahead: ahead})
		pos := int64(0)
		for _, groups := range []int64{0, 1, 50, 300} {
			for range groups {
				pos++
				s.read(1, pos)
				s.act(s.now)
				s.settle()
			}
			s.act(s.now)
			s.settle()
			asked := int64(0)
			for g, here := range s.stored.here[:s.groups-1] { // the last one proved the size
				if here {
					asked = int64(g) + 1
				}
			}
			if asked > pos+ahead || asked < pos+ahead-ahead/8-1 {
				t.Errorf("window %d: %d groups were asked for, the reader is at %d", ahead, asked, pos)
			}
		}
	}
}

// TestSilentFirst: a fast provider is asked for much at first and does not answer. What it was asked for beyond the
// first groups of the one that answers is asked of others as soon as the size is known.
func TestSilentFirst(t *testing.T) {
	t.Parallel()
	m := New(Config{Providers: 4, Tries: 3, Backoff: backoff})
	m.Join(1, Demand{Whole: true})
	m.Known(2)
	m.Advance(0)
	m.Found()
	m.Found()
	m.Granted()
	m.Measured(0, 100<<20, time.Millisecond)
	m.Advance(0) // asks 0 for 400 groups
	m.Advance(DefaultHedgeAfter)
	if len(m.requests) != 2 || m.requests[0].hi != 400 || m.requests[1].hi != firstRequest {
		t.Fatalf("%d requests, the first for %v", len(m.requests), m.requests[0].rest())
	}
	s := &stored{here: make([]bool, 600)}
	m.Progress(2, Progress{Sent: 1, First: 2, Alive: 2})
	m.Sized(600<<16, s)
	for g := range int64(firstRequest) {
		s.put(g)
	}
	m.Progress(2, Progress{Next: firstRequest, Sent: 1, First: 2, Alive: 3})
	asked := int64(firstRequest)
	for _, a := range m.Advance(DefaultHedgeAfter + time.Millisecond) {
		if a.Kind == Ask && a.Provider == 1 && a.Run.Lo == asked {
			asked = a.Run.Hi
		}
	}
	m.Ended(DefaultHedgeAfter+time.Millisecond, 2, Result{Fresh: firstRequest})
	if asked == firstRequest || m.requests[0].canceled != Late {
		t.Errorf("asked of the other up to group %d; the silent request is canceled %q", asked, m.requests[0].canceled)
	}
}
