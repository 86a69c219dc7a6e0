package scrub

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
)

// TestScrubState is a property: a position survives, and what is none is refused.
func TestScrubState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<40)
		when := func(name string) time.Time { return fromSeconds(n.Draw(t, name)) }
		st := state{
			running: rapid.Bool().Draw(t, "running"),
			next:    b3.Root(rapid.SliceOfN(rapid.Byte(), b3.Size, b3.Size).Draw(t, "next")),
			started: when("started"), objects: n.Draw(t, "objects"), bytes: n.Draw(t, "bytes"), bad: n.Draw(t, "bad"),
			lastEnd: when("end"), lastBad: n.Draw(t, "last bad"),
			lastTook: time.Duration(rapid.Int64Range(0, 1<<30).Draw(t, "took")) * time.Second,
		}
		p := st.encode()
		got, err := decode(p)
		if err != nil || got != st {
			t.Fatalf("%+v became %+v, %v", st, got, err)
		}
		if s := got.stats(); s.Progress < 0 || s.Progress > 1 {
			t.Fatalf("%+v", s)
		}
		if _, err := decode(p[:rapid.IntRange(0, len(p)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a part of one is taken")
		}
		p[0]++
		if _, err := decode(p); err == nil {
			t.Fatal("another form is taken")
		}
	})
}

// TestScrubDue: a clock that jumps does not stop the scrub for longer than an
// interval.
func TestScrubDue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		started time.Duration // from now
		most    time.Duration
	}{{-3 * time.Hour, 0}, {-time.Minute, 59 * time.Minute}, {1000 * time.Hour, time.Hour}} {
		st := state{started: time.Now().Add(test.started)}
		if d := st.due(time.Hour); d > test.most {
			t.Errorf("begun %s from now it is due in %s", test.started, d)
		}
	}
	if d := (&state{}).due(time.Hour); d != 0 {
		t.Errorf("the first one is due in %s", d)
	}
}
