package server

import (
	"testing"
	"time"
)

// TestPace: who acknowledges enough on average may go on, in whatever portions;
// who does not is cut off when its credit is used up.
func TestPace(t *testing.T) {
	t.Parallel()
	limits := progressLimits{idleTimeout: 5 * time.Second, minRate: 8 << 10} // credit for a lump: 16 s
	for name, c := range map[string]struct {
		bytes  int64 // acknowledged at once
		every  time.Duration
		lasts  time.Duration
		stands bool
	}{
		"nothing":                {0, time.Second, 22 * time.Second, false},
		"10 kB/s":                {1_000, 100 * time.Millisecond, time.Hour, true},
		"10 kB/s, 128 kB a time": {130_000, 13 * time.Second, time.Hour, true},
		"6 kB/s":                 {6_000, time.Second, 2 * time.Minute, false},
		"once, then nothing":     {1 << 30, time.Hour, 30 * time.Second, false},
	} {
		p := progress{limits: limits}
		elapsed := time.Duration(0)
		for elapsed < c.lasts {
			acked := c.bytes * int64(elapsed/c.every)
			if c.every == time.Hour && elapsed > 0 {
				acked = c.bytes
			}
			wait := p.measure(acked, time.Unix(1e9, 0).Add(elapsed))
			if wait <= 0 {
				break
			}
			elapsed += wait
		}
		if stands := elapsed >= c.lasts; stands != c.stands {
			t.Errorf("%s: after %s stands %t, want %t", name, elapsed, stands, c.stands)
		}
	}
	// Writes that went well in between begin anew.
	p := progress{limits: limits}
	now := time.Unix(1e9, 0)
	p.measure(0, now)
	if wait := p.measure(1, now.Add(time.Hour)); wait != limits.idleTimeout {
		t.Errorf("an hour later: %s", wait)
	}
}

// TestUnsent: what the kernel may take ahead is gone long before a client that
// keeps min_rate is idle.
func TestUnsent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate int64
		idle time.Duration
		want int
	}{
		{8 << 10, time.Minute, 120 << 10},
		{8 << 10, time.Hour, maxUnsent},
		{8 << 10, 10 * time.Second, 20 << 10},
		{1 << 30, time.Minute, maxUnsent},
		{1, time.Second, 4 << 10},
	} {
		if got := (progressLimits{minRate: c.rate}).unsent(c.idle); got != c.want {
			t.Errorf("%d B/s, %s: %d, want %d", c.rate, c.idle, got, c.want)
		}
	}
}
