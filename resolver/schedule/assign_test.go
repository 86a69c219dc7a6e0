package schedule

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
)

// What is asked for already, what is stored, and what a provider does not have, is not asked for.
func TestFreeRuns(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	s := &stored{here: make([]bool, 200)}
	for g := 80; g < 90; g++ {
		s.put(int64(g))
	}
	m.stored, m.size = s, 200*b3.GroupSize
	for _, r := range []Run{{40, 50}, {10, 20}, {20, 30}} {
		m.requests = append(m.requests, &request{Progress: Progress{Next: r.Lo}, hi: r.Hi, shared: true})
	}
	has := make(bitfield, 25)
	for g := range int64(200) {
		if g < 8 || g >= 13 && g < 34 || g >= 85 && g < 100 {
			has[g/8] |= 1 << (g % 8)
		}
	}
	some := &provider{claim: claim{part: &part{groups: has}}}
	m.providers = []*provider{some, {}}
	m.gather(0)
	for _, tc := range []struct{ in, all, part, rare Run }{
		{Run{0, 100}, Run{0, 10}, Run{0, 8}, Run{8, 10}},
		{Run{9, 100}, Run{9, 10}, Run{30, 34}, Run{9, 10}},
		{Run{15, 100}, Run{30, 40}, Run{30, 34}, Run{34, 40}},
		{Run{41, 50}, Run{}, Run{}, Run{}},
		{Run{34, 82}, Run{34, 40}, Run{}, Run{34, 40}},
		{Run{50, 200}, Run{50, 80}, Run{90, 100}, Run{50, 80}},
		{Run{85, 200}, Run{90, 200}, Run{90, 100}, Run{100, 200}},
		{Run{90, 100}, Run{90, 100}, Run{90, 100}, Run{}},
	} {
		got := [3]Run{m.search(nil, tc.in), m.search(some.offers, tc.in), m.search(m.common.rare, tc.in)}
		if got != [3]Run{tc.all, tc.part, tc.rare} {
			t.Errorf("of %v %v are free, want %v, %v, %v", tc.in, got, tc.all, tc.part, tc.rare)
		}
	}
}

// TestSparedBeyondTheWindow: a provider that has all is asked for nothing that faster ones with a part have, but for
// groups behind the window in which their parts are known.
func TestSparedBeyondTheWindow(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	m.stored, m.size = &stored{here: make([]bool, Window+100)}, (Window+100)*b3.GroupSize
	m.Join(1, Demand{Whole: true})
	m.waiters[0].bound(m.size)
	m.providers = []*provider{{rate: 1}, {rate: 2}}
	m.providers[1].part = &part{groups: bytes.Repeat([]byte{0xff}, Window/8)}
	m.gather(0)
	next := func() Run {
		w := m.waiters[0]
		return assigning{Machine: m}.next(w, m.needs(w), m.providers[0], 1)
	}
	if r := next(); r != (Run{Window, Window + 100}) {
		t.Errorf("it is asked for %v", r)
	}
	m.size = Window * b3.GroupSize
	m.waiters[0].hi = Window
	if r := next(); !r.empty() {
		t.Errorf("it is asked for %v, which a faster one has", r)
	}
}

// TestBitfield compares a bitfield with a set of numbers.
func TestBitfield(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bitfield(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes"))
		from := rapid.Int64Range(0, 90).Draw(t, "from")
		to := rapid.Int64Range(from, 90).Draw(t, "to")
		in := rapid.Bool().Draw(t, "in")
		has := func(i int64) bool { return i>>3 < int64(len(b)) && b[i>>3]>>(i&7)&1 != 0 }
		want := from
		for want < to && has(want) != in {
			want++
		}
		if got := b.first(from, to, in); got != want {
			t.Fatalf("%x: the first of [%d,%d) is %d, want %d", b, from, to, got, want)
		}
	})
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
