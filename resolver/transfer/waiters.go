package transfer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"allium/resolver/schedule"
)

// waiters is the list of the waiters of a transfer. Its methods are safe for concurrent use.
type waiters struct {
	whole atomic.Int64 // waiters for the whole object

	mu     sync.Mutex // lock: metadata, before trace.Lookup.mu
	closed bool       // no waiter may join any more
	joined int        // how many waiters have joined
	list   []*Waiter
}

// add adds w, whose context it derives from ctx. It reports whether w may still join.
func (l *waiters) add(ctx context.Context, w *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	l.joined++
	w.t.trace.Call()
	w.id = schedule.WaiterID(l.joined)
	l.list = append(l.list, w)
	if w.whole {
		l.whole.Add(1)
	}
	return true
}

func (l *waiters) remove(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.list, w); i >= 0 {
		l.list = slices.Delete(l.list, i, i+1)
		if w.whole {
			l.whole.Add(-1)
		}
	}
}

// current returns a copy of the list.
func (l *waiters) current() []*Waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// closeIfNone keeps further waiters out if there is none. It reports whether the list is closed.
func (l *waiters) closeIfNone() (closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.closed || len(l.list) == 0
	return l.closed
}

// close keeps further waiters out, and returns those that there are.
func (l *waiters) close() []*Waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return slices.Clone(l.list)
}
