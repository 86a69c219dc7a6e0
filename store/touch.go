package store

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
)

const (
	// touchEvery is how much later a use must be than the one that is known to
	// be noted, in minutes.
	touchEvery = 10
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
	clock func() time.Time
	full  chan struct{} // bound: 1; kicks the writer
	turn  chan struct{} // bound: 1; held while uses are written down

	mu      sync.Mutex
	latest  minute             // of all times told: the clock may be set back
	fresh   map[b3.Root]minute // to be written down
	written map[b3.Root]minute // are being, or were the last time
	holds   map[minute]int     // by when they began
	oldest  minute             // hold; 0 for none
	lost    minute             // when a use could not be noted last
	dropped int64
}

func newTouches(clock func() time.Time) *touches {
	return &touches{
		clock: clock, full: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		fresh: map[b3.Root]minute{}, written: map[b3.Root]minute{}, holds: map[minute]int{},
	}
}

// now is the time, which never runs backwards. mu is held.
func (t *touches) now() minute {
	t.latest = max(t.latest, minuteOf(t.clock()))
	return t.latest
}

// note says that root is used now; known is a use that the backend knows of. It
// takes no I/O. It reports whether the use is known from now on: with no room
// left it is dropped, and every hold keeps everything then.
func (t *touches) note(root b3.Root, known minute) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	known = max(known, t.fresh[root], t.written[root])
	if known+touchEvery > now && known >= t.oldest {
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
func (t *touches) usedAt(root b3.Root) minute {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.fresh[root], t.written[root])
}

// flush writes the uses down with write, one flush after the other.
func (t *touches) flush(ctx context.Context, write func(map[b3.Root]minute) error) error {
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
	t.fresh, t.written = map[b3.Root]minute{}, uses // read by others, written by none
	t.mu.Unlock()
	err := write(uses)
	if err != nil {
		t.mu.Lock()
		t.lost = t.now()
		t.mu.Unlock()
	}
	return err
}

// hold begins a hold.
func (t *touches) hold() (begun minute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun = t.now()
	t.holds[begun]++
	if t.oldest == 0 { // else the others are older: the clock does not run backwards
		t.oldest = begun
	}
	return begun
}

func (t *touches) unhold(begun minute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds[begun]--; t.holds[begun] == 0 {
		delete(t.holds, begun)
	}
	t.oldest = 0
	for m := range t.holds {
		if t.oldest == 0 || m < t.oldest {
			t.oldest = m
		}
	}
}

// holding reports whether there is a hold.
func (t *touches) holding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0
}

// held reports whether a hold keeps an object that was used last at used.
func (t *touches) held(used minute) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest > 0 && max(used, t.lost) >= t.oldest
}

// used notes that the object root, which the caller leases, is used now.
func (s *Store) used(root b3.Root, known minute) bool {
	if c := s.gc.cycle.Load(); c != nil {
		c.young.add(root)
	}
	return s.touches.note(root, known)
}

// usedOrWait is used for whoever may wait for the disk: it makes room.
func (s *Store) usedOrWait(ctx context.Context, root b3.Root, known minute) error {
	if s.used(root, known) {
		return nil
	}
	if err := s.flushTouches(ctx); err != nil {
		return err
	}
	s.used(root, known)
	return nil
}

func (s *Store) flushTouches(ctx context.Context) error { return s.touches.flush(ctx, s.backend.touch) }

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
