package jitter_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/jitter"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !jitter.Sleep(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("slept %s", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if jitter.Sleep(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("ended after %s", time.Since(start))
		}
	})
}

func TestJitter(t *testing.T) {
	var low, high bool
	for range 1000 {
		d := jitter.Spread(time.Second)
		if d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Fatalf("got %s", d)
		}
		low, high = low || d < 900*time.Millisecond, high || d > 1100*time.Millisecond
	}
	if !low || !high {
		t.Error("it does not spread")
	}
}

// TestGather: loops that begin at any moments wait for the same moment from their second look on.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 10 * time.Second
		for begun := time.Duration(0); begun < 2*every; begun += 700 * time.Millisecond {
			time.Sleep(700 * time.Millisecond)
			wait := jitter.Gather(every)
			if wait < every/2 || wait >= 3*every/2 {
				t.Errorf("waits for %s", wait)
			}
			if late := time.Now().Add(wait).UnixNano() % int64(every); late != 0 {
				t.Errorf("looks %s after the others", time.Duration(late))
			}
		}
	})
}
