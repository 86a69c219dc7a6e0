package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("slept %s: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != time.Second {
			t.Errorf("ended after %s: %v", time.Since(begun), err)
		}
		for _, d := range []time.Duration{0, -time.Second} {
			if err := Sleep(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("nothing to wait for, and an ended context: %v", err)
			}
		}
	})
}

func TestBackoff(t *testing.T) {
	for n := range 70 {
		least := min(backoffMin<<min(n, 10), backoffMax)
		for range 100 {
			if d := Backoff(n); d < least || d > min(2*least, backoffMax) {
				t.Fatalf("pause %d is %s", n, d)
			}
		}
	}
}
