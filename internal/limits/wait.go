package limits

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses between tries (SPEC §2).
const (
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

// Backoff is the pause before try n+2, from n = 0: U[50,100] ms · 2^n, at most
// 2 s.
func Backoff(n int) time.Duration {
	return min((backoffMin+rand.N(backoffMin+1))<<min(n, 10), backoffMax)
}

// Sleep returns nil after d, or ctx's error as soon as that ends. It looks at
// ctx also when there is nothing to wait for.
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
