// Package jitter spreads the periodic work of many nodes in time, so they do not all do it at the same moment. It also
// aligns the polling loops of one node, so the node wakes up seldom.
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

// Gather returns how long a loop that looks every d for a change on this machine waits for its next look: until the
// next multiple of d by the wall clock, and at least d/2. So the looks of all such loops share a wake-up. Work that
// other nodes notice takes Spread.
func Gather(d time.Duration) time.Duration {
	wait := d - time.Duration(time.Now().UnixNano())%d
	if wait < d/2 {
		wait += d
	}
	return wait
}

// Spread returns d ± 20 %, evenly distributed.
func Spread(d time.Duration) time.Duration { return SpreadBy(d, 0.2) }

// SpreadBy returns d ± share of it, evenly distributed. share is from 0 to 1.
func SpreadBy(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * (1 + share*(2*rand.Float64()-1)))
}
