package session

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
)

// pool keeps a number of goroutines running. One that dies — what it ran
// called runtime.Goexit, or panicked where nobody recovers — is replaced after
// a pause: 100 to 200 ms, doubling up to 2 s while the replacements die too.
type pool struct {
	want  int
	work  func(ctx context.Context) // returns when ctx ends
	died  func(reason any, stack []byte)
	alive atomic.Int64

	workers sync.WaitGroup
}

// steady is how long a worker lives until its death counts as the first again.
const steady = 10 * time.Second

// run keeps the workers running until ctx ends, and waits for them.
func (p *pool) run(ctx context.Context) {
	for range p.want {
		p.workers.Go(func() { p.worker(ctx, 0) })
	}
	p.workers.Wait()
}

// worker is the life of one worker, of which deaths died in its place.
func (p *pool) worker(ctx context.Context, deaths int) {
	if deaths > 0 && limits.Sleep(ctx, limits.Backoff(deaths)) != nil {
		return
	}
	p.alive.Add(1)
	begun, returned := time.Now(), false
	defer func() {
		p.alive.Add(-1)
		if returned {
			return
		}
		p.died(recover(), debug.Stack())
		if time.Since(begun) > steady {
			deaths = 0
		}
		p.workers.Go(func() { p.worker(ctx, deaths+1) }) // before this one's Done: Wait does not miss it
	}()
	p.work(ctx)
	returned = true
}
