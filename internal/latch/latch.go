// Package latch counts who is inside, stops admitting, and waits for those inside
// to leave.
package latch

import (
	"context"
	"sync"
)

// Latch admits until it is closed. The zero Latch admits. Its methods are safe for
// concurrent use.
//
// Invariant: empty is closed exactly when the latch is closed and nobody is inside.
type Latch struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // made by Close

	tasks sync.WaitGroup // starts what Go was given
}

// Enter reports whether the caller was admitted. Who was admitted leaves once.
func (l *Latch) Enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.inside++
	}
	return !l.closed
}

// Leave ends what Enter began.
func (l *Latch) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside--; l.inside == 0 && l.closed {
		close(l.empty)
	}
}

// Go runs f in a goroutine that is inside until f returns. It reports whether it was
// admitted.
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

// Inside returns how many have entered and not left.
func (l *Latch) Inside() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inside
}

// Close admits nobody from now on. It does not wait, and may be called again.
func (l *Latch) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed, l.empty = true, make(chan struct{})
	if l.inside == 0 {
		close(l.empty)
	}
}

// Closed reports whether the latch admits nobody.
func (l *Latch) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Open admits again. It is called when nobody waits: before the first Close, or
// after a Drain that came to its end.
func (l *Latch) Open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.empty = false, nil
}

// Drain closes the latch and waits until nobody is inside, or ctx ends. It returns
// how many are inside then.
func (l *Latch) Drain(ctx context.Context) (left int) {
	select {
	case <-l.end():
		return 0
	case <-ctx.Done():
		return l.Inside()
	}
}

// Wait is Drain without an end of its own: those inside are known to leave.
func (l *Latch) Wait() { <-l.end() }

func (l *Latch) end() <-chan struct{} {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.empty
}
