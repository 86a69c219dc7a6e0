package gc

import (
	"context"
	"errors"
	"time"

	"allium/store/meta"
)

// Wake makes Serve look now how full the store is. It does not wait.
func (g *Collector) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Serve keeps the store below its bounds until ctx is done. It looks every 5 seconds, and
// after Wake.
func (g *Collector) Serve(ctx context.Context) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		g.deps.Account.poll()
		use, b := g.deps.Account.usage(), g.deps.Account.bounds()
		g.deps.Account.updateFull(use, b)
		if (b.needsEviction(use) || g.hasWaiters()) && !g.cannotEvict() {
			g.evictNow(ctx)
		}
		select {
		case <-tick.C:
		case <-g.wake:
		case <-ctx.Done():
			return
		}
	}
}

// evictNow runs one eviction. If it could not make space, evictions pause for evictBackoff.
func (g *Collector) evictNow(ctx context.Context) {
	r, err := g.Run(ctx, Options{})
	g.deps.Account.poll()
	use, b := g.deps.Account.usage(), g.deps.Account.bounds()
	// Usage above the bound does not count as failure: puts may have gone on.
	if err != nil || r.fellShort() || r.Classes[Removed].Objects == 0 && g.deps.Account.diskLow() {
		g.mu.Lock()
		g.retryAfter = time.Now().Add(evictBackoff)
		g.mu.Unlock()
		if err != nil && ctx.Err() == nil && !errors.Is(err, meta.ErrDraining) {
			g.deps.Log.Warn("cannot evict objects", "err", err)
		}
	}
	g.deps.Account.updateFull(use, b)
	if n := r.Classes[Removed]; n.Objects > 0 {
		g.deps.Log.Info("evicted the least recently used objects",
			"objects", n.Objects, "bytes", n.Bytes, "took", r.Took.Round(time.Millisecond))
	}
}

// cannotEvict reports whether an eviction would remove nothing: the latest one just failed
// to make space, or damage is open.
func (g *Collector) cannotEvict() bool {
	open, _ := g.deps.Damages().Open()
	return open > 0 || g.backingOff()
}

func (g *Collector) latestReport() Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lastReport
}

// addWaiter registers a write that waits for space. Once enough collections have ended, one
// of them began after this call. The caller calls done when it stops waiting.
func (g *Collector) addWaiter() (enough int64, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	enough = g.runs.Ended + 1
	if g.cycle.Load() != nil {
		enough++
	}
	return enough, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}
}

// watchProgress returns a channel that the next removal or end of a collection closes, how
// many collections have ended, and whether the latest one could not remove enough.
func (g *Collector) watchProgress() (progress <-chan struct{}, ended int64, fellShort bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.progress, g.runs.Ended, g.fellShort
}

// backingOff reports whether evictions pause since the latest one could not make space.
func (g *Collector) backingOff() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.retryAfter)
}

// RetryEviction ends the pause of evictions, as a pin or a hold was removed and more
// objects may be evictable.
func (g *Collector) RetryEviction() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retryAfter = time.Time{}
}
