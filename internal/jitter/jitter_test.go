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
