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
