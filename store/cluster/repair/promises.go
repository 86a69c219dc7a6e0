package repair

import (
	"context"
	"errors"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/gc"
)

// promiseOps are the operations on objects that pins promise.
type promiseOps struct {
	// follow calls lost for each object that is promised and lost, until lost returns an
	// error. If the store has no open damage, it does nothing unless must is set.
	follow func(ctx context.Context, must bool, lost func(gc.Lost) error) error
	// promised reports whether an object is still promised and lost.
	promised func(ctx context.Context, l gc.Lost) (bool, error)
	// restored notes that an object is back. absent says that a pin promises it and that
	// it was missing, not damaged.
	restored func(ctx context.Context, root b3.Root, absent bool) error
}

// promiseState is the state of the walks that look for lost objects.
type promiseState struct {
	again chan struct{} // bound: 1; requests another walk

	mu        sync.Mutex    // lock: leaf
	found     bool          // the latest walk failed, or it or a check since has found a lost object
	cut       bool          // the latest walk ended early because the queue was full
	back      bool          // an object came back since; it may be a directory that names more lost ones
	wait      time.Duration // until the next look while objects are lost; doubles until one comes back
	fruitless int           // walks requested in a row after a cut walk while no object came back
}

// maxFruitless bounds the walks in a row while no object comes back. Each such walk may
// fail for queueLen objects, and only maxFailed failures are remembered.
const maxFruitless = maxFailed/queueLen - 1

func newPromiseState() promiseState {
	return promiseState{again: make(chan struct{}, 1)} // bound: 1, a second request adds nothing
}

// errQueueFull ends a walk early.
var errQueueFull = errors.New("the queue of repairs is full")

// Lost puts an object that is promised and lost into the queue. It does not wait. If the
// queue is full, the next look finds the object.
func (r *Repairs) Lost(l gc.Lost) {
	r.promises.mu.Lock()
	r.promises.found = true
	r.promises.mu.Unlock()
	_ = r.take(l.Root, &l)
}

// follow walks what pins promise and puts lost objects into the queue, until the queue is
// full. With must, or after something was found lost, it walks even if the store has no
// open damage. Only the goroutine of run calls it.
func (r *Repairs) follow(ctx context.Context, do ops, must bool) {
	p := &r.promises
	p.mu.Lock()
	if !must {
		p.fruitless = 0
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
		r.log.Warn("the objects that pins promise could not be checked", "err", err)
	}
	p.mu.Lock()
	p.found = p.found || found || err != nil
	p.cut = errors.Is(err, errQueueFull)
	p.mu.Unlock()
	r.mu.Lock()
	left := len(r.pending)
	r.mu.Unlock()
	p.ended(false, left)
}

// nextLook returns how long to wait until the next look at all objects. That is lookEvery.
// While an object is lost it is less: a quarter more than a wait that starts at minWait and
// doubles with each call, up to lookEvery. So objects that failed may be tried again then.
func (p *promiseState) nextLook() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.found {
		p.wait = 0
		return lookEvery
	}
	p.wait = max(2*p.wait, minWait)
	return min(p.wait+p.wait/4, lookEvery)
}

// ended notes the end of a repair or a walk; back says that an object came back, and left
// how many are pending. It requests another walk in two cases: an object came back and
// nothing is pending, because a directory may name more lost objects; or the latest walk
// was cut and the queue is at most half full, unless maxFruitless such walks were in vain.
func (p *promiseState) ended(back bool, left int) {
	p.mu.Lock()
	p.back = p.back || back
	if back {
		p.fruitless, p.wait = 0, 0
	}
	again := p.back && left == 0
	if !again && p.cut && left <= queueLen/2 && p.fruitless < maxFruitless {
		again = true
		p.fruitless++
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
