// Package jitter spreads periodic work in time, so that many nodes do not do the same
// work at the same moment.
package jitter

import (
	"context"
	"math/rand/v2"
	"time"

	"allium/internal/limits"
)

// Sleep waits for d and returns true, or returns false as soon as ctx is done.
func Sleep(ctx context.Context, d time.Duration) bool {
	return limits.Sleep(ctx, d) == nil && ctx.Err() == nil
}

// Spread returns d ± 20 %, evenly distributed.
func Spread(d time.Duration) time.Duration { return SpreadBy(d, 0.2) }

// SpreadBy returns d ± share of it, evenly distributed. share is from 0 to 1.
func SpreadBy(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * (1 + share*(2*rand.Float64()-1)))
}
