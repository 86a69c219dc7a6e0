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
func Spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + spread*(2*rand.Float64()-1)))
}

// spread is the largest part of a duration that Spread adds or subtracts.
const spread = 0.2
