package session

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
)

// pool keeps a fixed number of worker goroutines running. A worker dies if its work
// panics or calls runtime.Goexit. The pool replaces it after 100 to 200 ms; the wait
// doubles up to 2 s while the replacements die too.
type pool struct {
	size  int
	work  func(ctx context.Context) // returns when ctx ends
	died  func(reason any, stack []byte)
	alive atomic.Int64

	workers sync.WaitGroup
}

// stableAfter is the time that a worker must live to reset the count of deaths.
const stableAfter = 10 * time.Second

// start starts the workers, which are alive from now on, and keeps them running until ctx ends.
func (p *pool) start(ctx context.Context) {
	p.alive.Add(int64(p.size))
	for range p.size {
		p.workers.Go(func() { p.worker(ctx, 0) })
	}
}

// wait waits for the workers after ctx has ended.
func (p *pool) wait() { p.workers.Wait() }

// worker runs one worker. deaths is how many workers died in a row before it.
func (p *pool) worker(ctx context.Context, deaths int) {
	if deaths > 0 {
		if limits.Sleep(ctx, limits.Backoff(deaths)) != nil {
			return
		}
		p.alive.Add(1)
	}
	begun, returned := time.Now(), false
	defer func() {
		p.alive.Add(-1)
		if returned {
			return
		}
		p.died(recover(), debug.Stack())
		if time.Since(begun) > stableAfter {
			deaths = 0
		}
		p.workers.Go(func() { p.worker(ctx, deaths+1) }) // before this one's Done: Wait does not miss it
	}()
	p.work(ctx)
	returned = true
}
