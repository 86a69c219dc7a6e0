package repair

import (
	"context"
	"errors"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/gc"
)

// promiseOps are what repairs ask of what pins promise.
type promiseOps struct {
	// follow tells lost of each object that is promised and lost, until lost
	// returns an error. Where it may be that none is, it does nothing unless it
	// must.
	follow func(ctx context.Context, must bool, lost func(gc.Lost) error) error
	// promised says whether an object is still promised, and lost.
	promised func(ctx context.Context, l gc.Lost) (bool, error)
	// restored is told of each object that came back; absent says that a pin
	// promises it and it was not here.
	restored func(ctx context.Context, root b3.Root, absent bool) error
}

// promiseState is what repairs know of what is promised.
type promiseState struct {
	again chan struct{} // bound: 1; asks for another walk

	mu    sync.Mutex
	found bool          // the latest walk, or a check, found something lost
	cut   bool          // the latest walk ended where the queue was full
	back  bool          // something came back since, so more may be known of what is lost
	wait  time.Duration // until the next look while something is lost; it doubles until something comes back
	vain  int           // walks that were asked for since a walk was cut, in a row without anything that came back
}

// maxVain bounds the walks in a row between which nothing came back: of so many
// failures it is remembered when the next try is due.
const maxVain = maxFailed/queueLen - 1

func newPromiseState() promiseState {
	return promiseState{again: make(chan struct{}, 1)} // bound: 1, another one adds nothing
}

// errQueueFull ends a walk.
var errQueueFull = errors.New("the queue of repairs is full")

// Lost takes what is promised and lost to be repaired. It does not wait.
func (r *Repairs) Lost(l gc.Lost) {
	r.promises.mu.Lock()
	r.promises.found = true
	r.promises.mu.Unlock()
	_ = r.take(l.Root, &l)
}

// follow looks for what is promised and lost. One goroutine calls it.
func (r *Repairs) follow(ctx context.Context, do ops, must bool) {
	p := &r.promises
	p.mu.Lock()
	if !must {
		p.vain = 0
	}
	must = must || p.found
	p.found, p.cut, p.back = false, false, false
	p.mu.Unlock()
	found := false
	err := do.follow(ctx, must, func(l gc.Lost) error {
		found = true
		if r.take(l.Root, &l) == "full" {
			return errQueueFull
		}
		return nil
	})
	if err != nil && !errors.Is(err, errQueueFull) && ctx.Err() == nil {
		r.log.Warn("what pins promise could not be looked at", "err", err)
	}
	p.mu.Lock()
	p.found = p.found || found || err != nil
	p.cut = errors.Is(err, errQueueFull)
	p.mu.Unlock()
	r.ended(false, r.waiting())
}

// nextLook is how long to wait until the next look at everything: while
// something is lost it is tried sooner, a little after what failed may be tried
// again.
func (r *Repairs) nextLook() time.Duration {
	p := &r.promises
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.found {
		p.wait = 0
		return lookEvery
	}
	p.wait = max(2*p.wait, minWait)
	return min(p.wait+p.wait/4, lookEvery)
}

func (r *Repairs) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

// ended asks for another walk when repairs are through with what the latest one
// found: a directory that came back names more.
func (r *Repairs) ended(back bool, left int) {
	p := &r.promises
	p.mu.Lock()
	p.back = p.back || back
	if back {
		p.vain, p.wait = 0, 0
	}
	again := p.back && left == 0
	if !again && p.cut && left <= queueLen/2 && p.vain < maxVain {
		again = true
		p.vain++
	}
	if again {
		p.back, p.cut = false, false
	}
	p.mu.Unlock()
	if again {
		select {
		case p.again <- struct{}{}:
		default:
		}
	}
}
