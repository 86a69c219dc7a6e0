// Package latch provides a latch for an orderly shutdown: it counts the callers that
// are inside, stops admitting others, and waits until all have left.
package latch

import (
	"context"
	"sync"
)

// Latch admits callers until it is closed. The zero Latch is open. Its methods are safe
// for concurrent use.
//
// Invariant: empty is closed exactly when the latch is closed and nobody is inside.
type Latch struct {
	mu     sync.Mutex // guards inside, closed and empty; lock: leaf
	inside int
	closed bool
	empty  chan struct{} // made by Close

	tasks sync.WaitGroup // starts the goroutines of Go
}

// Enter reports whether the caller was admitted. A caller that was admitted calls Leave
// exactly once.
func (l *Latch) Enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.inside++
	}
	return !l.closed
}

// Leave notes that a caller which Enter has admitted has left.
func (l *Latch) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside--; l.inside == 0 && l.closed {
		close(l.empty)
	}
}

// Go runs f in a goroutine that is inside until f returns. It returns false, and does
// not run f, if the latch is closed.
func (l *Latch) Go(f func()) bool {
	if !l.Enter() {
		return false
	}
	l.tasks.Go(func() {
		defer l.Leave()
		f()
	})
	return true
}

// Inside returns how many callers are inside.
func (l *Latch) Inside() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inside
}

// Close closes the latch and reports whether it was open. It does not wait.
func (l *Latch) Close() (wasOpen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed, l.empty = true, make(chan struct{})
	if l.inside == 0 {
		close(l.empty)
	}
	return true
}

// Closed reports whether the latch is closed.
func (l *Latch) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Open opens the latch again. It may only be called while no Drain or Wait runs. Callers
// that are still inside stay counted.
func (l *Latch) Open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.empty = false, nil
}

// Drain closes the latch and waits until nobody is inside or ctx ends. It returns how
// many callers are still inside.
func (l *Latch) Drain(ctx context.Context) (left int) {
	select {
	case <-l.end():
		return 0
	case <-ctx.Done():
		return l.Inside()
	}
}

// CloseAndWait closes the latch and waits until nobody is inside, without a bound. The caller
// knows that all callers inside will leave.
func (l *Latch) CloseAndWait() { <-l.end() }

// end closes the latch and returns the channel that is closed when nobody is inside.
func (l *Latch) end() <-chan struct{} {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.empty
}
