package resolver

import (
	"log/slog"
	"time"

	"allium/internal/jitter"
	"allium/protocols/b3"
)

// warmupPause is the time that the warm-up waits for a peer, or for other work to end, before it looks again.
const warmupPause = time.Second

// warmup resolves the objects of Config.Warmup, so that the first requests for them find
// their providers in the cache.
type warmup struct {
	log       *slog.Logger
	connected func() bool
}

// run begins when a peer is known. It resolves one object at a time, and starts none while a
// lookup, a fetch or a read is under way.
func (w warmup) run(l *life, r *Resolver, roots []b3.Root) {
	ctx := l.ctx
	found := 0
	for _, root := range roots {
		for !w.connected() || l.work.Inside() > 1 { // the warm-up itself is inside
			if !jitter.Sleep(ctx, jitter.Spread(warmupPause)) {
				return
			}
		}
		if _, err := r.Resolve(ctx, root, Query{}); err == nil {
			found++
		}
		if ctx.Err() != nil {
			return
		}
	}
	w.log.Info("the warm-up has ended", "keys", len(roots), "found", found)
}
