package meta

import (
	"testing"
	"time"
)

// TestClock: a hold begins after every stamp before it, at most a minute ahead
// of the wall's clock, and no time is earlier than one before.
func TestClock(t *testing.T) {
	t.Parallel()
	wall := time.Unix(1000, 0)
	c := NewClock(func() time.Time { return wall })
	if at := c.BeginHold(); at != 1000 {
		t.Fatalf("a hold before any stamp begins at %d, want the wall's 1000", at)
	}
	if at := c.Stamp(); at != 1000 {
		t.Fatalf("stamped %d, want 1000", at)
	}
	for i := range Second(2 * maxAhead) {
		before := c.Stamp()
		begun := c.BeginHold()
		if want := min(1000+i+1, 1000+maxAhead); begun != want || begun <= before && begun < 1000+maxAhead {
			t.Fatalf("hold %d begins at %d after a stamp at %d, want %d", i, begun, before, want)
		}
		if begun != c.BeginHold() && begun < 1000+maxAhead {
			t.Fatal("a hold right after another begins later, with no stamp between them")
		}
	}
	wall = time.Unix(500, 0)
	if at := c.Stamp(); at != 1000+maxAhead {
		t.Fatalf("stamped %d after the wall's clock was set back", at)
	}
	wall = time.Unix(5000, 0)
	if at := c.BeginHold(); at != 5000 {
		t.Fatalf("a hold begins at %d, the wall's clock says 5000", at)
	}
}

// TestClockCommitting: what is stamped and does not show yet may show after a hold
// has begun: the hold keeps it.
func TestClockCommitting(t *testing.T) {
	t.Parallel()
	c := NewClock(func() time.Time { return time.Unix(1000, 0) })
	committing := c.BeginCommit()
	if begun := c.BeginHold(); begun > committing {
		t.Fatalf("a hold begins at %d, what is being committed has %d", begun, committing)
	}
	if at := c.Stamp(); at <= committing {
		t.Fatalf("stamped %d after a hold began, as before it", at)
	}
	c.EndCommit()
	if begun := c.BeginHold(); begun <= committing {
		t.Fatalf("a hold begins at %d, though nothing is being committed", begun)
	}
}
