package fill

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"allium/gateway/policy/audit"
	"allium/internal/tracing"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// flight is the fill of one path, for all who wait for it. Its owner is the queue, then the worker that runs it.
//
// Invariants: it ends exactly once, and every waiter sees that. The object that it became stays in the store until the
// last waiter has left.
type flight struct {
	key    pathKey
	source *source
	path   string
	expect expected     // of a source with a manifest; else zero
	client netip.Prefix // who asked first, for the fair queue
	event  audit.Event  // the audit record of the fill
	queued time.Time    // when it was made
	bytes  arrival

	mu      sync.Mutex    // lock: leaf
	changed chan struct{} // closed and replaced by each change
	state   state
	waiters int
}

// expected is the object that a manifest names.
type expected struct {
	root b3.Root // zero: not known
	size int64
	span *tracing.Span // of the lookup in the manifest; nil if that was remembered
}

// state says how far a flight has come.
type state struct {
	begun bool          // the header of the answer is there
	size  int64         // that it says; −1: not known
	keep  time.Duration // how long the answer is fresh

	ended   bool
	err     error   // why there is no object
	record  *record // of the object that the path became
	release func()  // lets the store evict the object; nil: nothing to release
}

// init completes a flight that nobody else knows yet.
func (f *flight) init() *flight {
	f.changed = make(chan struct{})
	f.bytes.changed = f.notify
	return f
}

// notify wakes those who wait.
func (f *flight) notify() { f.change(func(*state) {}) }

// change changes the state and wakes those who wait.
func (f *flight) change(edit func(*state)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.state)
	close(f.changed)
	f.changed = make(chan struct{})
}

// begin notes the header of an answer.
func (f *flight) begin(size int64, keep time.Duration) {
	f.change(func(s *state) { s.begun, s.size, s.keep = true, size, keep })
}

// end ends the flight. Further calls do nothing but release what they bring.
func (f *flight) end(r *record, release func(), err error) {
	var drop func()
	f.change(func(s *state) {
		switch {
		case s.ended || f.waiters == 0:
			drop = release
		default:
			s.release = release
		}
		if !s.ended {
			s.ended, s.record, s.err = true, r, err
		}
	})
	if drop != nil {
		drop()
	}
}

// join counts a waiter, which calls leave once.
func (f *flight) join() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters++
}

// leave ends the wait of a waiter.
func (f *flight) leave() {
	if release := f.left(); release != nil {
		release()
	}
}

// left counts a waiter that has left, and returns what the last one releases.
func (f *flight) left() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		release, f.state.release = f.state.release, nil
	}
	return release
}

// now returns the state, and a channel that is closed when it changes.
func (f *flight) now() (state, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.changed
}

// wait waits until the flight has ended or enough returns true, and returns its state. The error is that of ctx.
func (f *flight) wait(ctx context.Context, enough func(state) bool) (state, error) {
	for {
		s, changed := f.now()
		if s.ended || enough(s) {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

// errDraining is the error of a fill that the end of the node ends.
var errDraining = status.Errorf(status.Draining, "the node is shutting down. Ask another, or wait until it is back")
