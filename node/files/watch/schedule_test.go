package watch

import (
	"math/rand/v2"
	"testing"
	"time"
)

var timing = Timing{
	Quiet: 500 * time.Millisecond, Latest: 5 * time.Second, Gap: 10 * time.Second,
	Retry: time.Second, Slow: time.Minute,
}

// TestSchedule: what happens, and how long after that work begins.
func TestSchedule(t *testing.T) {
	t.Parallel()
	epoch := time.Unix(1_000_000, 0)
	type step struct {
		at    time.Duration
		do    string
		begin time.Duration // when work begins next; 0: not at all
	}
	for name, steps := range map[string][]step{
		"a pause": {{0, "change", 500 * time.Millisecond}, {400 * time.Millisecond, "change", 900 * time.Millisecond}},
		"nothing": {{0, "begin", 0}, {time.Second, "ok", 0}},
		"while it works": {
			{0, "change", 500 * time.Millisecond}, {time.Second, "begin", 0}, {2 * time.Second, "change", 0},
			{3 * time.Second, "ok", 13 * time.Second},
		},
		"nothing to do": {
			{0, "begin", 0}, {time.Second, "idle", 0}, {2 * time.Second, "change", 2500 * time.Millisecond},
		},
		"a failure": {
			{0, "begin", 0}, {time.Second, "fail", 2 * time.Second}, {2 * time.Second, "begin", 0},
			{2 * time.Second, "fail", 4 * time.Second},
		},
		"it goes on": {
			{0, "change", 500 * time.Millisecond}, {4 * time.Second, "change", 4500 * time.Millisecond},
			{4900 * time.Millisecond, "change", 5 * time.Second},
		},
	} {
		s := schedule{Timing: timing}
		for i, st := range steps {
			now := epoch.Add(st.at)
			switch st.do {
			case "change":
				s.changed(now)
			case "begin":
				s.begin()
			default:
				s.end(now, st.do != "idle", st.do == "fail")
			}
			at, ok := s.next()
			got := at.Sub(epoch)
			if slack := timing.Retry / 2; ok != (st.begin != 0) || ok &&
				(got < st.begin-slack || got > st.begin+slack) ||
				ok && st.do != "fail" && got != st.begin {
				t.Errorf("%s, step %d: begins at %s, %t; want %s", name, i, got, ok, st.begin)
			}
		}
	}
}

// TestScheduleOrder: whatever happens, work is never begun twice, a change is never forgotten, and
// the wait is bounded.
func TestScheduleOrder(t *testing.T) {
	t.Parallel()
	s := schedule{Timing: timing}
	now, r := time.Unix(0, 0), rand.New(rand.NewPCG(1, 2))
	dirty := false
	for range 100_000 {
		now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
		switch at, ok := s.next(); {
		case s.running && ok:
			t.Fatal("work is to begin while it runs")
		case !s.running && ok != dirty:
			t.Fatalf("dirty %t, and work is to begin: %t", dirty, ok)
		case ok && at.Sub(now) > timing.Slow*12/10:
			t.Fatalf("work waits for %s", at.Sub(now))
		case ok && !at.After(now):
			s.begin()
			dirty = false
			continue
		}
		if s.running && r.IntN(3) == 0 {
			failed := r.IntN(2) == 0
			s.end(now, r.IntN(2) == 0, failed)
			dirty = dirty || failed
		} else if r.IntN(2) == 0 {
			s.changed(now)
			dirty = true
		}
	}
}
