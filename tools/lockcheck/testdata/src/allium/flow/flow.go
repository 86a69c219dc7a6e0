// Package flow locks and unlocks on some paths.
package flow

import (
	"os"
	"sync"
)

type T struct {
	mu    sync.Mutex // lock: leaf
	cond  *sync.Cond
	ended bool
}

func io() { os.Remove("x") }

func (t *T) early() {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		io()
		return
	}
	if !t.ended {
		io() // want `T.mu is held across I/O: os.Remove, through flow.io`
	}
	t.mu.Unlock()
	io()
}

func (t *T) loop() {
	t.mu.Lock()
	for !t.ended {
		t.mu.Unlock()
		io()
		t.mu.Lock()
	}
	io() // want `T.mu is held`
	t.mu.Unlock()
}

func (t *T) deferred() {
	defer io()
	t.mu.Lock()
	defer t.mu.Unlock()
	defer io() // want `T.mu is held`
}

func (t *T) deferredLiteral() {
	t.mu.Lock()
	defer func() {
		t.mu.Unlock()
		io()
	}()
}

func (t *T) try() {
	if t.mu.TryLock() {
		io() // want `T.mu is held`
		t.mu.Unlock()
	}
	if !t.mu.TryLock() {
		io()
		return
	}
	io() // want `T.mu is held`
	t.mu.Unlock()
}

func (t *T) tryNegated() {
	failed := !t.mu.TryLock()
	if failed {
		io()
		return
	}
	io() // want `T.mu is held`
	t.mu.Unlock()
}

// lock returns with the lock held.
func (t *T) lock() func() {
	t.mu.Lock()
	return func() { t.mu.Unlock() }
}

// deferring returns a function, or none, after a deferred call.
func (t *T) deferring() func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	return func() {}
}

func (t *T) wrapped() {
	if f := t.deferring(); f != nil {
		t.mu.Lock()
		f()
		t.mu.Unlock()
	}
	unlock := t.lock()
	io() // want `T.mu is held`
	unlock()
	io()
}

func (t *T) wrappedDeferred() {
	defer t.lock()()
	io() // want `T.mu is held`
}

// enter returns with the lock held if it returns true.
func (t *T) enter() (n int, ok bool) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return 0, false
	}
	return 1, true
}

func (t *T) entered() {
	if _, ok := t.enter(); ok {
		io() // want `T.mu is held`
		t.mu.Unlock()
	}
	io()
	_, ok := t.enter()
	if !ok {
		io()
		return
	}
	defer t.mu.Unlock()
	io() // want `T.mu is held`
}

// outside gives the caller's lock up while it writes.
func (t *T) outside() {
	t.mu.Unlock()
	io()
	t.mu.Lock()
}

// then does so, and writes again when the caller's lock is held as before.
func (t *T) then() {
	t.mu.Unlock()
	t.mu.Lock()
	io()
}

func (t *T) callsThen() {
	t.mu.Lock()
	t.then() // want `T.mu is held`
	t.mu.Unlock()
}

func (t *T) unlocks() { t.mu.Unlock() }

func (t *T) callsOutside() {
	t.mu.Lock()
	t.outside()
	io() // want `T.mu is held`
	t.unlocks()
	io()
}

func (t *T) background() {
	t.mu.Lock()
	defer t.mu.Unlock()
	go io()
	go func() { io() }()
}

func (t *T) once(once *sync.Once) {
	t.mu.Lock()
	once.Do(func() { io() }) // want `T.mu is held across I/O: os.Remove, through \(\*sync.Once\).Do → \(\*flow.T\).once\$1 → flow.io`
	func() { io() }()        // want `T.mu is held`
	t.mu.Unlock()
}

func (t *T) recursive(n int) {
	if n > 0 {
		t.recursive(n - 1)
	}
	io()
}

func (t *T) callsRecursive() {
	t.mu.Lock()
	t.recursive(3) // want `T.mu is held`
	t.mu.Unlock()
}

func (t *T) exits() {
	t.mu.Lock()
	if t.ended {
		os.Exit(1) // no path goes on from here
	} else {
		t.mu.Unlock()
	}
	io()
}

// What a function does is known also before those that it calls are read.
func (t *T) callsOne() {
	t.mu.Lock()
	t.one() // want `T.mu is held`
	t.mu.Unlock()
}

func (t *T) one() { t.two() }
func (t *T) two() { io() }
