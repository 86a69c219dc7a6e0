// Package patience says how long work goes on waiting when all its sources are gone.
//
// A source that stands still, or restarts, comes back after some seconds. Work that has begun waits for
// that: at most [Wait] without a byte, or until the deadline of its context. Work that has not begun does
// not wait. Background work, whose context has no patience, never does: it is tried again anyway.
package patience

import (
	"context"
	"sync/atomic"
	"time"

	"allium/internal/jitter"
)

// Wait is the time that work that has begun waits without a source.
const Wait = 60 * time.Second

// key is the key of a context's patience.
type key struct{}

// With returns a copy of ctx for work that may wait once it has begun. Everything below that context is
// one piece of work.
func With(ctx context.Context) context.Context {
	return context.WithValue(ctx, key{}, new(atomic.Bool))
}

// Begin says that the work of ctx has begun: a part of its result is there.
func Begin(ctx context.Context) {
	if begun, ok := ctx.Value(key{}).(*atomic.Bool); ok && !begun.Load() {
		begun.Store(true)
	}
}

// Until returns when work that got its latest byte at the time heard gives up, in which begun says that it has
// begun, whatever ctx knows. The zero time means that it does not wait.
func Until(ctx context.Context, begun bool, heard time.Time) time.Time {
	if noted, ok := ctx.Value(key{}).(*atomic.Bool); !ok || !begun && !noted.Load() {
		return time.Time{}
	}
	if end, ok := ctx.Deadline(); ok {
		return end
	}
	return heard.Add(Wait)
}

// The pauses between two tries to reach sources that are gone.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Second
)

// Pause returns the pause before try n, from 0, to reach sources that are gone: 1 s, doubled up to 5 s, ± 20 %.
func Pause(n int) time.Duration { return jitter.Spread(min(firstPause<<min(n, 8), lastPause)) }
