package store

import (
	"testing"
	"time"
)

// TestClock: a hold begins after every stamp before it, at most a minute ahead
// of the wall's clock, and no time is earlier than one before.
func TestClock(t *testing.T) {
	t.Parallel()
	wall := time.Unix(1000, 0)
	c := newClock(func() time.Time { return wall })
	if at := c.begin(); at != 1000 {
		t.Fatalf("a hold before any stamp begins at %d, want the wall's 1000", at)
	}
	if at := c.stamp(); at != 1000 {
		t.Fatalf("stamped %d, want 1000", at)
	}
	for i := range second(2 * maxAhead) {
		before := c.stamp()
		begun := c.begin()
		if want := min(1000+i+1, 1000+maxAhead); begun != want || begun <= before && begun < 1000+maxAhead {
			t.Fatalf("hold %d begins at %d after a stamp at %d, want %d", i, begun, before, want)
		}
		if begun != c.begin() && begun < 1000+maxAhead {
			t.Fatal("a hold right after another begins later, with no stamp between them")
		}
	}
	wall = time.Unix(500, 0)
	if at := c.stamp(); at != 1000+maxAhead {
		t.Fatalf("stamped %d after the wall's clock was set back", at)
	}
	wall = time.Unix(5000, 0)
	if at := c.begin(); at != 5000 {
		t.Fatalf("a hold begins at %d, the wall's clock says 5000", at)
	}
}

// TestClockAloft: what is stamped and does not show yet may show after a hold
// has begun: the hold keeps it.
func TestClockAloft(t *testing.T) {
	t.Parallel()
	c := newClock(func() time.Time { return time.Unix(1000, 0) })
	aloft := c.takeOff()
	if begun := c.begin(); begun > aloft {
		t.Fatalf("a hold begins at %d, what is aloft has %d", begun, aloft)
	}
	if at := c.stamp(); at <= aloft {
		t.Fatalf("stamped %d after a hold began, as before it", at)
	}
	c.land()
	if begun := c.begin(); begun <= aloft {
		t.Fatalf("a hold begins at %d, though nothing is aloft", begun)
	}
}
