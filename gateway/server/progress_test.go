package server

import (
	"testing"
	"time"
)

// TestMeasure: a client that acknowledges a byte in time is not cut off, in whatever portions. One that
// does not is cut off at the end of the stall time, and at most one check later.
func TestMeasure(t *testing.T) {
	t.Parallel()
	const stall = 10 * time.Minute
	for name, c := range map[string]struct {
		every time.Duration // a byte is acknowledged at each multiple of it; 0: never
		until time.Duration // no more are acknowledged from then on
		ends  time.Duration // about when it is cut off; 0: never
	}{
		"nothing":                    {ends: stall},
		"a byte a second":            {every: time.Second, until: 24 * time.Hour},
		"a byte each nine minutes":   {every: 9 * time.Minute, until: 24 * time.Hour},
		"much, and then nothing":     {every: time.Second, until: time.Hour, ends: time.Hour + stall},
		"a byte each twelve minutes": {every: 12 * time.Minute, until: 24 * time.Hour, ends: stall},
	} {
		p := progress{stall: stall}
		begun := time.Unix(1e9, 0)
		elapsed, wait := time.Duration(0), stall/stallChecks // of the first deadline
		for wait > 0 && elapsed < 24*time.Hour {
			elapsed += wait
			acked := int64(0)
			if c.every > 0 {
				acked = int64(min(elapsed, c.until) / c.every)
			}
			wait = p.measure(acked, begun.Add(elapsed))
		}
		if cut := wait == 0; cut != (c.ends > 0) || cut && (elapsed < c.ends || elapsed > c.ends+2*stall/stallChecks) {
			t.Errorf("%s: cut %t after %s, want about %s", name, cut, elapsed, c.ends)
		}
	}
	// Writes that went well in between begin anew.
	p := progress{stall: stall}
	now := time.Unix(1e9, 0)
	p.measure(0, now)
	if wait := p.measure(0, now.Add(time.Hour)); wait != stall/stallChecks {
		t.Errorf("an hour later: %s", wait)
	}
}
