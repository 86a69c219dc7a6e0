package gc

import (
	"context"
	"errors"
	"time"

	"allium/store/meta"
)

// Kick makes the store ask its disk now how much is free, as it otherwise does every
// 5 seconds and before it refuses a write. It does not wait.
func (g *Collector) Kick() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Serve keeps the store below its bounds until ctx is done.
func (g *Collector) Serve(ctx context.Context) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		g.deps.Account.poll()
		use, b := g.deps.Account.usage(), g.deps.Account.bounds()
		g.deps.Account.judge(use, b)
		if (b.over(use) || g.hurried()) && !g.inVain() {
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

// evictNow runs one eviction and notes whether it was in vain.
func (g *Collector) evictNow(ctx context.Context) {
	r, err := g.Run(ctx, Options{})
	g.deps.Account.poll()
	use, b := g.deps.Account.usage(), g.deps.Account.bounds()
	// Above the bound it may be only because puts went on.
	if err != nil || r.short() || r.Classes[Removed].Objects == 0 && g.deps.Account.squeezed() {
		g.mu.Lock()
		g.notUntil = time.Now().Add(vainPause)
		g.mu.Unlock()
		if err != nil && ctx.Err() == nil && !errors.Is(err, meta.ErrDraining) {
			g.deps.Log.Warn("the store could not evict what is used least", "err", err)
		}
	}
	g.deps.Account.judge(use, b)
	if n := r.Classes[Removed]; n.Objects > 0 {
		g.deps.Log.Info("evicted what was used least recently", "objects", n.Objects, "bytes", n.Bytes, "took", r.Took.Round(time.Millisecond))
	}
}

// inVain reports whether an eviction would remove nothing: the latest one could
// not make space, just now, or damage is open.
func (g *Collector) inVain() bool {
	open, _ := g.deps.Backend.Damages().Open()
	return open > 0 || g.vain()
}

func (g *Collector) latest() Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// await joins those who wait for space. Once enough collections have ended, one
// has looked at everything after this call.
func (g *Collector) await() (enough int64, over func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	enough = g.done.Ended + 1
	if g.cycle.Load() != nil {
		enough++
	}
	return enough, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}
}

// watch returns what is closed at the next removal or end of a collection, how
// many have ended, and whether the latest could not remove what it had to.
func (g *Collector) watch() (moved <-chan struct{}, ended int64, short bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.progress, g.done.Ended, g.short
}

// vain reports whether the latest eviction could not make space, just now.
func (g *Collector) vain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.notUntil)
}

// Released says that something may be evictable that was not.
func (g *Collector) Released() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notUntil = time.Time{}
}
