package fill

import (
	"context"
	"sync"
)

// pool counts the workers of a Service, which come and go with Config.Fills.
//
// Invariant: at most size run, or as many as ran when it became less: a worker whose fill has ended leaves while there
// are too many.
type pool struct {
	resized chan struct{} // capacity 1: hire may return more than 0

	mu        sync.Mutex // guards what follows; lock: leaf
	size      int
	running   int
	life      context.Context    // of all workers; nil: none may run
	idle      context.Context    // of life, for those that wait for a fill
	interrupt context.CancelFunc // ends idle, so that they see that there are too many
}

// open lets workers run until ctx ends.
func (p *pool) open(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = ctx
	p.idle, p.interrupt = context.WithCancel(ctx)
}

// resize sets the number of workers.
func (p *pool) resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = n
	if p.life == nil {
		return
	}
	p.interrupt()
	p.idle, p.interrupt = context.WithCancel(p.life)
	select {
	case p.resized <- struct{}{}:
	default: // it is known already
	}
}

// hire returns how many workers the caller starts. Each calls stay until that returns false.
func (p *pool) hire() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := max(0, p.size-p.running)
	p.running += n
	return n
}

// stay reports whether a worker may wait for another fill, and until when. If it returns false, the worker counts no
// more.
func (p *pool) stay() (idle context.Context, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running > p.size || p.life.Err() != nil {
		p.running--
		return nil, false
	}
	return p.idle, true
}
