// Package uses tracks when the objects of a store were last used, and holds, which protect
// objects from garbage collection until they are pinned.
//
// Everything is in RAM; the backend gets the last uses later. A store notes a use with
// Tracker.Note, under a lease of the object. Tracker.Run writes the noted uses every minute. An add
// calls Hold before it stores objects: every object used from then on is protected until it calls
// release. A collection asks Held before it removes an object.
package uses

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

const (
	// WriteAfter is the number of seconds by which a use must be later than the one on disk to be written.
	WriteAfter = 60 * 60
	// maxUnwritten bounds the uses that wait in RAM to be written. Further ones are dropped.
	maxUnwritten = 16 << 10
	// flushInterval is the interval at which uses are written.
	flushInterval = time.Minute
)

// Tracker holds the last uses that the backend does not know yet, and the holds. Its
// methods are safe for concurrent use.
//
// A use is noted under a lease of its root. A removal excludes leases, so what it reads
// here does not change.
type Tracker struct {
	deps     Deps
	wakeRun  chan struct{} // a buffer of one
	flushing chan struct{} // a buffer of one; full while uses are written

	mu         sync.Mutex              // lock: metadata
	unwritten  map[b3.Root]meta.Second // at most maxUnwritten
	flushed    map[b3.Root]meta.Second // of the latest Flush; not changed
	holds      holds
	oldest     meta.Second // begin of the oldest hold; 0 for none
	newest     meta.Second // begin of the newest hold
	overflowed meta.Second // the latest use that had no place in the filters of the holds
	dropped    int64       // uses that had no place in unwritten
}

// Deps holds the dependencies of a Tracker.
type Deps struct {
	Clock *meta.Clock
	Write func(map[b3.Root]meta.Second) error // writes uses to the backend
	Noted func(b3.Root)                       // called with each use, under the lease of the caller
}

// New returns a tracker without uses and holds.
func New(deps Deps) *Tracker {
	return &Tracker{
		deps: deps, wakeRun: make(chan struct{}, 1), flushing: make(chan struct{}, 1),
		unwritten: map[b3.Root]meta.Second{}, flushed: map[b3.Root]meta.Second{},
	}
}

// Note notes that root is used now, and every hold protects root from now on. known is an
// earlier use that the backend has. Note does no I/O. It returns false when maxUnwritten
// uses are waiting, and drops the time of this one.
func (t *Tracker) Note(root b3.Root, known meta.Second) bool {
	t.deps.Noted(root)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.deps.Clock.Stamp()
	if known < t.newest && !t.holds.add(root) { // a later known use proves by itself that root is held
		t.overflowed = now
	}
	if max(known, t.unwritten[root], t.flushed[root])+WriteAfter > now {
		return true
	}
	if _, ok := t.unwritten[root]; !ok && len(t.unwritten) >= maxUnwritten {
		t.dropped++
		t.wake()
		return false
	}
	t.unwritten[root] = now
	if len(t.unwritten) >= maxUnwritten/2 {
		t.wake()
	}
	return true
}

// NoteOrFlush is Note for callers that may wait for the disk: if there is no space, it
// writes the noted uses first.
func (t *Tracker) NoteOrFlush(ctx context.Context, root b3.Root, known meta.Second) error {
	if t.Note(root, known) {
		return nil
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.Note(root, known)
	return nil
}

// wake wakes Run. It never blocks.
func (t *Tracker) wake() {
	select {
	case t.wakeRun <- struct{}{}:
	default:
	}
}

// UsedAt returns the last use of root that was noted here, 0 for none. A caller that also
// asks the backend asks it afterwards, as Flush moves uses there.
func (t *Tracker) UsedAt(root b3.Root) meta.Second {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.unwritten[root], t.flushed[root])
}

// Dropped returns how many uses were dropped because too many were waiting.
func (t *Tracker) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// Flush writes the noted uses to the backend. One flush runs at a time; a second one waits
// for it or ctx.
func (t *Tracker) Flush(ctx context.Context) error {
	select {
	case t.flushing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.flushing }()
	t.mu.Lock()
	uses := t.unwritten
	if len(uses) == 0 {
		t.mu.Unlock()
		return nil
	}
	t.unwritten, t.flushed = map[b3.Root]meta.Second{}, uses // nobody changes uses from here on
	t.mu.Unlock()
	return t.deps.Write(uses)
}

// Run flushes once a minute, when many uses wait, and when ctx is done, so that the last
// uses are written before the backend closes. It hands errors to report.
func (t *Tracker) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.wakeRun:
		case <-ctx.Done():
			report(t.Flush(context.WithoutCancel(ctx)))
			return
		}
		report(t.Flush(ctx))
	}
}

// Hold begins a hold, which protects every object that is used from now on until release is
// called. release is idempotent.
func (t *Tracker) Hold() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holds.begin(t.deps.Clock.BeginHold())
	t.oldest, t.newest = t.holds.bounds()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.holds.end(h)
		t.oldest, t.newest = t.holds.bounds()
	})
}

// Holding reports whether any hold is in force.
func (t *Tracker) Holding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0
}

// Held reports whether a hold protects root. used is the latest use of root that the
// backend or UsedAt knows.
func (t *Tracker) Held(root b3.Root, used meta.Second) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0 && (max(used, t.overflowed) >= t.oldest || t.holds.has(root))
}
