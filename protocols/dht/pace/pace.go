// Package pace is how discovery waits: with an end, and not all nodes at once.
package pace

import (
	"context"
	"math/rand/v2"
	"time"

	"allium/protocols/admission"
)

// Sleep waits for d and returns true, or false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	return admission.Sleep(ctx, d) == nil && ctx.Err() == nil
}

// Jitter returns d ± 20 %, evenly: what a network would do in step spreads out.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + spread*(2*rand.Float64()-1)))
}

// spread is the part that Jitter adds or takes away at most.
const spread = 0.2
