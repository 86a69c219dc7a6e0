package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

const (
	// roomWait is how long a write waits for an eviction to make room.
	roomWait = 5 * time.Second
	// maxRoomWaits is how many writes wait for it; the next get no_space.
	maxRoomWaits = 1024
	// collectEvery is how often the store looks how full it is.
	collectEvery = 5 * time.Second
	// vainPause is how long no eviction is tried after one that could not make
	// enough room, unless a pin or a hold is removed.
	vainPause = 10 * time.Second
	// growth is the step in which a stream of unknown length asks for room.
	growth = b3.GroupSize
)

// room is how full the store is and was when the disk was last asked.
type room struct {
	bytes   atomic.Int64 // of puts under way
	objects atomic.Int64 // being put
	waits   *limits.Gate

	unwritten atomic.Int64 // of bytes, those that the disk does not know of yet: promised to uploads

	mu       sync.Mutex
	free     int64 // of the disk, −1 unknown
	coming   int64 // that the compactor is about to give back
	usedThen int64 // bytes used on the disk when free was read
	full     bool
	reason   string
}

func (g *collector) latest() GCReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// take takes n within the bounds, or nothing.
func (s *Store) take(n meta.Count) bool {
	s.reserve(n)
	if !s.usage().passes(s.bounds().hard) {
		return true
	}
	s.give(n)
	return false
}

// reserve takes n whatever the bounds say.
func (s *Store) reserve(n meta.Count) {
	s.room.bytes.Add(n.Bytes)
	s.room.objects.Add(n.Objects)
}

// give gives back what take took: it is counted with the objects now, or gone.
func (s *Store) give(n meta.Count) {
	s.room.bytes.Add(-n.Bytes)
	s.room.objects.Add(-n.Objects)
}

// takeRoom takes n, at once or after an eviction that it asks for and waits
// for, 5 s at most. Otherwise it is no_space, before anything was written.
func (s *Store) takeRoom(ctx context.Context, n meta.Count) error {
	if err := s.waitRoom(ctx.Done(), n); !errors.Is(err, errGone) {
		return err
	}
	return ctx.Err()
}

// errGone says that whoever waited does not want it any more.
var errGone = errors.New("gone")

// waitRoom is takeRoom until gone is closed.
func (s *Store) waitRoom(gone <-chan struct{}, n meta.Count) error {
	if s.take(n) {
		return nil
	}
	if s.poll(); s.take(n) {
		return nil
	}
	if err := s.backend.Failure(); err != nil {
		return err // nothing is evicted either
	}
	if s.inVain() {
		return s.fullError(n)
	}
	release, err := s.room.waits.TryAcquire()
	if err != nil {
		return s.fullError(n)
	}
	defer release()
	enough, over := s.gc.await()
	defer over()
	timer := time.NewTimer(roomWait)
	defer timer.Stop()
	for {
		moved, ended, short := s.gc.watch()
		if s.poll(); s.take(n) {
			return nil
		}
		// One that began after this wait could not help, or none can.
		if ended >= enough && (short || s.inVain() || !s.bounds().fits(n)) {
			return s.fullError(n)
		}
		s.gc.kick()
		select {
		case <-moved:
		case <-timer.C:
			return s.fullError(n)
		case <-gone:
			return errGone
		case <-s.admission.Stopping():
			return meta.ErrDraining
		}
	}
}

// await joins those who wait for room. Once enough collections have ended, one
// has looked at everything after this call.
func (g *collector) await() (enough int64, over func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	enough = g.done.Ended + 1
	if g.cycle.Load() != nil {
		enough++
	}
	return enough, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}
}

// watch returns what is closed at the next removal or end of a collection, how
// many have ended, and whether the latest could not remove what it had to.
func (g *collector) watch() (moved <-chan struct{}, ended int64, short bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.progress, g.done.Ended, g.short
}

func (g *collector) kick() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// vain reports whether the latest eviction could not make room, just now.
func (g *collector) vain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.notUntil)
}

// released says that something may be evictable that was not.
func (g *collector) released() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notUntil = time.Time{}
}

// fullError is the refusal of n more bytes, with what could be done.
func (s *Store) fullError(n meta.Count) error {
	s.metrics.gc.refused.Inc()
	s.gc.mu.Lock()
	lastErr := s.gc.lastErr
	s.gc.mu.Unlock()
	sp, use, hard := s.Space(), s.usage(), s.bounds().hard
	human := func(n int64) string { return limits.Bytes(n).Human() }
	var what string
	switch {
	case use.Objects+n.Objects > hard.Objects:
		what = fmt.Sprintf("the store has %d objects, store.max_objects are %d", sp.Used.Objects, sp.Max.Objects)
	case s.memoryCap() > 0 && hard.Bytes < int64(s.cfg.MaxBytes), s.memoryCap() > 0 && s.cfg.MaxBytes == 0:
		what = fmt.Sprintf("the store holds %s of %s (store.memory_bytes), and %s more are asked for", human(use.Bytes), human(hard.Bytes), human(n.Bytes))
	case s.cfg.MaxBytes > 0 && use.local+n.Bytes <= hard.local:
		what = fmt.Sprintf("the store holds %s of %s (store.max_bytes), and %s more are asked for", human(use.Bytes), human(hard.Bytes), human(n.Bytes))
	default:
		what = fmt.Sprintf("the disk is full: %s are free, %s stay reserved (store.reserve_bytes), and %s more are asked for", human(max(sp.Free, 0)), human(sp.Reserve), human(n.Bytes))
	}
	fix := "unpin what you do not need, `allium gc plan` shows what holds what"
	if open, _ := s.OpenDamage(); open > 0 {
		fix = "nothing is evicted: " + blockedBy(open)
	} else if lastErr != nil && status.Of(lastErr) == status.Conflict {
		fix = lastErr.Error()
	}
	return status.Errorf(status.NoSpace, "store: %s; %s are pinned, %s could be evicted; %s", what, human(sp.Pinned.Bytes), human(sp.Evictable.Bytes), fix)
}

// growing asks for room as a stream of unknown length comes in.
type growing struct {
	ctx context.Context
	s   *Store
	r   io.Reader
	got int64      // bytes read
	may int64      // bytes that there is room for
	has meta.Count // taken
}

func (g *growing) Read(p []byte) (int, error) {
	if g.got >= g.may {
		if err := g.grow(); err != nil {
			return 0, err
		}
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.may-g.got)])
	g.got += int64(n)
	return n, err
}

func (g *growing) grow() error {
	more := meta.Count{Bytes: partialCharge(growth)}
	if g.may == 0 {
		more.Objects = 1
	}
	if err := g.s.takeRoom(g.ctx, more); err != nil {
		return err
	}
	g.has.Bytes += more.Bytes
	g.has.Objects += more.Objects
	g.may += growth
	return nil
}

// done gives the room back: the object is counted where it is now, or gone.
func (g *growing) done() { g.s.give(g.has) }
