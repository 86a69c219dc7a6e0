package gc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
		g.results.mu.Lock()
		g.retryAfter = time.Now().Add(evictBackoff)
		g.results.mu.Unlock()
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

// results are the outcomes of collections, for the writes that wait for space. Its methods are safe for concurrent use.
type results struct {
	mu         sync.Mutex            // lock: leaf
	progress   chan struct{}         // closed when something was removed or a collection ended
	cycle      atomic.Pointer[cycle] // the collection in progress; nil for none
	runs       Runs
	fellShort  bool       // the latest collection could not remove enough
	waiting    int        // writes that wait for space
	lastReport Report     // of the latest collection that looked at every object
	ages       *histogram // of what it found evictable; nil when it removed all of it
	lastErr    error      // of the latest collection
	retryAfter time.Time  // until then, evictions are not tried: the last one could not make space
}

// Runs counts the collections since the start, without dry runs.
type Runs struct {
	Ended       int64         `json:"ended"`
	LastEnd     time.Time     `json:"last_end,omitzero"` // zero when there was none
	LastTook    time.Duration `json:"last_took"`
	LastRemoved meta.Count    `json:"last_removed"`
}

// Runs returns the counters.
func (r *results) Runs() Runs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

// finish ends a collection and records its outcome.
func (r *results) finish(c *cycle, err error) {
	defer r.signalProgress()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cycle.Store(nil)
	if !c.opt.Dry {
		r.runs = Runs{
			Ended: r.runs.Ended + 1, LastEnd: time.Now(),
			LastTook: c.report.Took, LastRemoved: c.report.Classes[Removed],
		}
		r.fellShort, r.lastErr = err != nil || c.report.fellShort(), err
	}
	if c.complete {
		r.lastReport = c.report
		if !c.opt.All || !c.opt.Dry {
			r.ages = c.ages
		}
	}
}

// signalProgress wakes the writes that wait for space.
func (r *results) signalProgress() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.progress)
	r.progress = make(chan struct{})
}

// latest returns lastReport, ages and lastErr.
func (r *results) latest() (Report, *histogram, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastReport, r.ages, r.lastErr
}

// hasWaiters reports whether a write waits for space.
func (r *results) hasWaiters() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0
}

// addWaiter registers a write that waits for space. Once enough collections have ended, one
// of them began after this call. The caller calls done when it stops waiting.
func (r *results) addWaiter() (enough int64, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting++
	enough = r.runs.Ended + 1
	if r.cycle.Load() != nil {
		enough++
	}
	return enough, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting--
	}
}

// watchProgress returns a channel that the next removal or end of a collection closes, how
// many collections have ended, and whether the latest one could not remove enough.
func (r *results) watchProgress() (progress <-chan struct{}, ended int64, fellShort bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress, r.runs.Ended, r.fellShort
}

// backingOff reports whether evictions pause since the latest one could not make space.
func (r *results) backingOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.retryAfter)
}

// RetryEviction ends the pause of evictions, as a pin or a hold was removed and more
// objects may be evictable.
func (r *results) RetryEviction() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retryAfter = time.Time{}
}
