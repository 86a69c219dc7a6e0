package session

import (
	"context"
	"sync"
)

// inflight counts what a drain waits for: requests of peers whose answer is not
// written, and calls of this node. Its lock is the last in the lock order.
type inflight struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n reaches 0; nil if no drain waits
}

func (i *inflight) add() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
}

func (i *inflight) done(n int) {
	i.mu.Lock()
	i.n -= n
	zero := i.zero
	if i.n > 0 {
		zero = nil
	}
	if zero != nil {
		i.zero = nil
	}
	i.mu.Unlock()
	if zero != nil {
		close(zero)
	}
}

func (i *inflight) now() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.n
}

// wait waits until nothing is in flight and returns 0. If ctx ends first, it returns
// the number in flight.
func (i *inflight) wait(ctx context.Context) int {
	for {
		i.mu.Lock()
		n := i.n
		if n > 0 && i.zero == nil {
			i.zero = make(chan struct{})
		}
		zero := i.zero
		i.mu.Unlock()
		if n == 0 {
			return 0
		}
		select {
		case <-zero:
		case <-ctx.Done():
			return i.now()
		}
	}
}
