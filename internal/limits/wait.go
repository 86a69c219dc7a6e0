package limits

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses between attempts (SPEC §2).
const (
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

// Backoff returns the pause after attempt n, where the first attempt is 0: a
// random time of 50 to 100 ms, doubled n times, at most 2 s.
func Backoff(n int) time.Duration {
	return min((backoffMin+rand.N(backoffMin+1))<<min(n, 10), backoffMax)
}

// Sleep waits for d and returns nil, or ctx's error as soon as ctx ends. If d ≤ 0
// it returns ctx's error at once, nil if ctx has not ended.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SleepUntil waits for most and returns nil, or before that as soon as done returns true, which it calls after each
// step, and not before least has passed. It returns ctx's error as Sleep does.
func SleepUntil(ctx context.Context, done func() bool, step, least, most time.Duration) error {
	for most > 0 {
		now := min(step, most)
		if err := Sleep(ctx, now); err != nil {
			return err
		}
		if most, least = most-now, least-now; least <= 0 && most > 0 && done() {
			return nil
		}
	}
	return ctx.Err()
}
