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
