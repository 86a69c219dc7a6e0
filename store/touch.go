package store

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

const (
	// touchEvery is how much later a use must be than the one that is known to
	// be noted, in seconds.
	touchEvery = 600
	// maxTouches is how many uses wait in RAM to be written down.
	maxTouches = 16 << 10
	// touchInterval is how often they are written down.
	touchInterval = time.Minute
)

// touches are the last uses of objects that the backend does not know of yet,
// and the holds, which make exact what a removal may rely on. It is RAM only.
//
// A use is noted while its root is leased: what a removal, which excludes
// leases, reads here is settled.
type touches struct {
	clock *meta.Clock
	full  chan struct{} // bound: 1; kicks the writer
	turn  chan struct{} // bound: 1; held while uses are written down

	mu      sync.Mutex
	fresh   map[b3.Root]meta.Second // to be written down
	written map[b3.Root]meta.Second // are being, or were the last time
	holds   map[meta.Second]int     // by when they began
	oldest  meta.Second             // hold; 0 for none
	newest  meta.Second             // hold: a use before it is noted again, for it may outlive the others
	lost    meta.Second             // when a use could not be noted last
	dropped int64
}

func newTouches(clock *meta.Clock) *touches {
	return &touches{
		clock: clock, full: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		fresh: map[b3.Root]meta.Second{}, written: map[b3.Root]meta.Second{}, holds: map[meta.Second]int{},
	}
}

// note says that root is used now; known is a use that the backend knows of. It
// takes no I/O. It reports whether the use is known from now on: with no room
// left it is dropped, and every hold keeps everything then.
func (t *touches) note(root b3.Root, known meta.Second) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Stamp()
	known = max(known, t.fresh[root], t.written[root])
	if known+touchEvery > now && known >= t.newest {
		return true
	}
	if _, ok := t.fresh[root]; !ok && len(t.fresh) >= maxTouches {
		t.lost = now
		t.dropped++
		t.kick()
		return false
	}
	t.fresh[root] = now
	if len(t.fresh) >= maxTouches/2 {
		t.kick()
	}
	return true
}

// kick wakes the writer. mu may be held: it never waits.
func (t *touches) kick() {
	select {
	case t.full <- struct{}{}:
	default:
	}
}

// usedAt is the last use of root that was noted here, 0 for none. Whoever asks
// the backend too asks it afterwards.
func (t *touches) usedAt(root b3.Root) meta.Second {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.fresh[root], t.written[root])
}

// flush writes the uses down with write, one flush after the other.
func (t *touches) flush(ctx context.Context, write func(map[b3.Root]meta.Second) error) error {
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
	err := write(uses)
	if err != nil {
		t.mu.Lock()
		t.lost = t.clock.Stamp()
		t.mu.Unlock()
	}
	return err
}

// hold begins a hold.
func (t *touches) hold() (begun meta.Second) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun = t.clock.BeginHold()
	t.holds[begun]++
	if t.oldest == 0 || begun < t.oldest {
		t.oldest = begun
	}
	t.newest = max(t.newest, begun)
	return begun
}

func (t *touches) unhold(begun meta.Second) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds[begun]--; t.holds[begun] == 0 {
		delete(t.holds, begun)
	}
	t.oldest, t.newest = 0, 0
	for at := range t.holds {
		if t.oldest == 0 || at < t.oldest {
			t.oldest = at
		}
		t.newest = max(t.newest, at)
	}
}

// holding reports whether there is a hold.
func (t *touches) holding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0
}

// held reports whether a hold keeps an object that was used last at used.
func (t *touches) held(used meta.Second) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0 && max(used, t.lost) >= t.oldest
}

// used notes that the object root, which the caller leases, is used now.
func (s *Store) used(root b3.Root, known meta.Second) bool {
	s.gc.Used(root)
	return s.touches.note(root, known)
}

// usedOrWait is used for whoever may wait for the disk: it makes room.
func (s *Store) usedOrWait(ctx context.Context, root b3.Root, known meta.Second) error {
	if s.used(root, known) {
		return nil
	}
	if err := s.flushTouches(ctx); err != nil {
		return err
	}
	s.used(root, known)
	return nil
}

func (s *Store) flushTouches(ctx context.Context) error { return s.touches.flush(ctx, s.backend.Touch) }

// keepTouches writes uses down once a minute, and when there are many, until
// ctx is done.
func (s *Store) keepTouches(ctx context.Context) {
	tick := time.NewTicker(touchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.touches.full:
		case <-ctx.Done():
			// What was used up to the end is written before the backend closes.
			s.report("note last uses", s.flushTouches(context.WithoutCancel(ctx)))
			return
		}
		s.report("note last uses", s.flushTouches(ctx))
	}
}

// droppedUses is how many uses there was no room for.
func (t *touches) droppedUses() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
