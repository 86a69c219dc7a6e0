package limits

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

// TestDrainRate: the estimate of how long it takes to free one more.
func TestDrainRate(t *testing.T) {
	t.Parallel()
	type step struct {
		use   bool          // it is in use from now on
		every time.Duration // one is freed so often
		lasts time.Duration
	}
	freed := func(every, d time.Duration) step { return step{every: every, lasts: d} }
	quiet := func(d time.Duration) step { return step{lasts: d} }
	used := step{use: true}
	const ms = time.Millisecond
	const sec = time.Second
	for name, c := range map[string]struct {
		steps     []step
		low, high time.Duration
	}{
		"nothing is known":   {[]step{used, quiet(60 * sec)}, 0, 0},
		"ten a second":       {[]step{used, freed(100*ms, 2*sec)}, 95 * ms, 105 * ms},
		"one in two seconds": {[]step{used, freed(2*sec, 20*sec)}, 1900 * ms, 2100 * ms},
		"shortly after one in two seconds": {
			[]step{used, freed(2*sec, 20*sec), quiet(1900 * ms)}, 1900 * ms, 2100 * ms,
		},
		"it stands still for 10 s": {[]step{used, freed(10*ms, 2*sec), quiet(10 * sec)}, 10 * sec, 10100 * ms},
		"it stood still and goes on as before": {
			[]step{used, freed(10*ms, 2*sec), quiet(10 * sec), freed(10*ms, 2*sec)}, 9 * ms, 11 * ms,
		},
		"it stood still and frees the first": {
			[]step{used, freed(10*ms, 2*sec), quiet(10 * sec), freed(ms, ms)}, 900 * ms, 11 * sec,
		},
		"nothing was in use for an hour": {
			[]step{used, freed(10*ms, 2*sec), quiet(time.Hour), used}, 9 * ms, 11 * ms,
		},
		"nothing was in use, and now it stands still": {
			[]step{used, freed(10*ms, 2*sec), quiet(time.Hour), used, quiet(5 * sec)}, 5 * sec, 5100 * ms,
		},
		"its items are taken at once, five a second": {
			[]step{used, freed(200*ms, 2*sec), quiet(200 * ms), used, freed(ms, ms), quiet(199 * ms), used, freed(ms, ms)},
			180 * ms, 220 * ms,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d drainRate
			now := instant(0)
			for _, s := range c.steps {
				if s.use {
					d.begin(now)
				}
				end := now + instant(s.lasts)
				for s.every > 0 && now < end {
					now += instant(s.every)
					d.done(1, now)
				}
				now = end
			}
			if got := d.waitAt(1, now); got < c.low || got > c.high {
				t.Errorf("it takes %s, want %s to %s", got, c.low, c.high)
			}
		})
	}
}

// TestWaitAfterQuiet: the first refusal after a quiet time tells the wait of before, and one of a gate that stands
// still tells for how long it has.
func TestWaitAfterQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r *Registry
		g := r.NewGate(Spec{Name: "g"}, 1, 0)
		retry := func() time.Duration {
			t.Helper()
			var full *status.Error
			if !errors.As(g.Enter(), &full) {
				t.Fatal("it was not refused")
			}
			return full.Limit.RetryAfter
		}
		for range 20 {
			if err := g.Enter(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
			g.Leave()
		}
		time.Sleep(time.Hour)
		if err := g.Enter(); err != nil {
			t.Fatal(err)
		}
		if got := retry(); got < 450*time.Millisecond || got > 550*time.Millisecond {
			t.Errorf("after an hour in which nothing was in use: %s", got)
		}
		time.Sleep(8 * time.Second)
		if got := retry(); got < 8*time.Second || got > 9*time.Second {
			t.Errorf("after 8 s in which nothing was freed: %s", got)
		}
	})
}
