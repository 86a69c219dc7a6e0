// Package uses knows when the objects of a store were used last, and what holds
// keep from a collection.
package uses

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

const (
	// Every is how much later than the use on disk a use must be to be written, in
	// seconds.
	Every = 60 * 60
	// maxFresh is how many uses wait in RAM to be written. Further ones are dropped.
	maxFresh = 16 << 10
	// flushInterval is how often uses are written.
	flushInterval = time.Minute
)

// Tracker has the last uses of objects that the backend does not know yet, and the
// holds. It is in RAM only. Its methods are safe for concurrent use.
//
// A use is noted while its root is leased. A removal excludes leases, so what it
// reads here does not change.
type Tracker struct {
	clock *meta.Clock
	full  chan struct{} // bound: 1; wakes Run
	turn  chan struct{} // bound: 1; held while uses are written

	mu      sync.Mutex
	fresh   map[b3.Root]meta.Second // to be written
	written map[b3.Root]meta.Second // are being written, or were last
	holds   holds
	oldest  meta.Second // hold; 0 for none
	newest  meta.Second // hold
	lost    meta.Second // when the last use came that the holds had no room for
	dropped int64
}

// New returns a tracker whose times come from clock.
func New(clock *meta.Clock) *Tracker {
	return &Tracker{
		clock: clock, full: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		fresh: map[b3.Root]meta.Second{}, written: map[b3.Root]meta.Second{},
	}
}

// Note notes that root is used now. known is an earlier use that the backend has.
// Every hold keeps root from now on. Note does no I/O. It reports false when there
// was no room to note the time of the use; Flush makes room.
func (t *Tracker) Note(root b3.Root, known meta.Second) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Stamp()
	if known < t.newest && !t.holds.show(root) { // else its time says that it is held
		t.lost = now
	}
	if max(known, t.fresh[root], t.written[root])+Every > now {
		return true
	}
	if _, ok := t.fresh[root]; !ok && len(t.fresh) >= maxFresh {
		t.dropped++
		t.wake()
		return false
	}
	t.fresh[root] = now
	if len(t.fresh) >= maxFresh/2 {
		t.wake()
	}
	return true
}

// wake wakes Run. mu may be held: it never waits.
func (t *Tracker) wake() {
	select {
	case t.full <- struct{}{}:
	default:
	}
}

// UsedAt returns the last use of root that was noted here, 0 for none. A caller
// that asks the backend too asks it afterwards.
func (t *Tracker) UsedAt(root b3.Root) meta.Second {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.fresh[root], t.written[root])
}

// Dropped returns how many uses there was no room for.
func (t *Tracker) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// Flush writes the uses with write. One flush runs at a time.
func (t *Tracker) Flush(ctx context.Context, write func(map[b3.Root]meta.Second) error) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.turn }()
	t.mu.Lock()
	uses := t.fresh
	if len(uses) == 0 {
		t.mu.Unlock()
		return nil
	}
	t.fresh, t.written = map[b3.Root]meta.Second{}, uses // read by others, written by none
	t.mu.Unlock()
	return write(uses)
}

// Run calls flush once a minute, when many uses wait, and when ctx is done: what
// was used up to the end is written before the backend closes.
func (t *Tracker) Run(ctx context.Context, flush func(context.Context)) {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.full:
		case <-ctx.Done():
			flush(context.WithoutCancel(ctx))
			return
		}
		flush(ctx)
	}
}

// Hold begins a hold: what is used from now on is held until release is called.
// release is idempotent.
func (t *Tracker) Hold() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holds.begin(t.clock.BeginHold())
	t.oldest, t.newest = t.holds.bounds()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.holds.end(h)
		t.oldest, t.newest = t.holds.bounds()
	})
}

// Holding reports whether there is a hold.
func (t *Tracker) Holding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0
}

// Held reports whether a hold keeps root, whose last use that the backend knows, or
// that was noted here, was at used.
func (t *Tracker) Held(root b3.Root, used meta.Second) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0 && (max(used, t.lost) >= t.oldest || t.holds.has(root))
}
