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

// TestSleepUntil: the sleep ends when the condition holds, but not before the least time, and after the longest in any
// case, without another look.
func TestSleepUntil(t *testing.T) {
	const step = 20 * time.Millisecond
	for name, tc := range map[string]struct {
		met               bool
		least, most, want time.Duration
		looks             bool
	}{
		"met":         {true, 0, time.Second, step, true},
		"met early":   {true, 5 * step, time.Second, 5 * step, true},
		"not met":     {false, 0, 3*step + 1, 3*step + 1, true},
		"short":       {true, 0, step, step, false},
		"least later": {true, time.Hour, time.Second, time.Second, false},
		"no time":     {true, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, looks := time.Now(), 0
				met := func() bool { looks++; return tc.met }
				if err := SleepUntil(t.Context(), met, step, tc.least, tc.most); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != tc.want || looks > 0 != tc.looks {
					t.Errorf("it took %s and %d looks, want %s", took, looks, tc.want)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if cancel(); tc.most > 0 && SleepUntil(ctx, met, step, tc.least, tc.most) == nil {
					t.Error("it goes on although the caller does not wait any more")
				}
			})
		})
	}
}
