package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
)

const (
	// roomWait is how long a write waits for an eviction to make room.
	roomWait = 5 * time.Second
	// maxRoomWaits is how many writes wait for it; the next get no_space.
	maxRoomWaits = 1024
	// collectEvery is how often the store looks how full it is.
	collectEvery = 5 * time.Second
	// vainPause is how long no eviction is tried after one that could not make
	// enough room, unless a pin is removed.
	vainPause = 10 * time.Second
	// growth is the step in which a stream of unknown length asks for room.
	growth = b3.GroupSize
)

// Space is how full the store is.
type Space struct {
	Used       GCCount // objects and bytes: outboards, partial objects and puts under way included
	Max        GCCount // 0 is no bound; of bytes the smallest of max_bytes, the memory cap, and what the disk has beyond the reserve
	Low        GCCount // where an eviction ends
	Free       int64   // bytes free on the disk, −1 when it cannot tell
	Reserve    int64   // bytes that stay free
	Evictable  GCCount // that nothing held when the latest collection looked
	Pinned     GCCount // that a pin held then
	Full       bool    // puts are refused until enough was removed
	FullReason string  // why, in a sentence
}

// bounds are the limits in force.
type bounds struct {
	hard    GCCount // no put may pass it
	trigger GCCount // above it an eviction begins
	low     GCCount // and ends here
}

// excess is what use has above the low-water mark.
func (b bounds) excess(use GCCount) GCCount {
	return GCCount{Objects: max(0, use.Objects-b.low.Objects), Bytes: max(0, use.Bytes-b.low.Bytes)}
}

func (b bounds) over(use GCCount) bool {
	return use.Bytes > b.trigger.Bytes || use.Objects > b.trigger.Objects
}

// room is how full the store is and was when the disk was last asked.
type room struct {
	bytes   atomic.Int64 // of puts under way
	objects atomic.Int64 // being put
	waits   *admission.Gate

	mu       sync.Mutex
	free     int64 // of the disk, −1 unknown
	usedThen int64 // bytes used when free was read
	full     bool
	reason   string
}

// usage is what is used now.
func (s *Store) usage() GCCount {
	t := s.backend.totals()
	return GCCount{Objects: t.objects.Load() + s.room.objects.Load(), Bytes: t.bytes.Load() + s.partials.bytes.Load() + s.room.bytes.Load()}
}

// free is what the disk has left.
func (d *disk) free() (int64, bool) {
	u, err := d.fs.GetDiskUsage(d.cfg.Dir)
	return int64(min(u.AvailBytes, math.MaxInt64)), err == nil
}

// poll asks the disk how much is free.
func (s *Store) poll() {
	free := int64(-1)
	if d, ok := s.backend.(interface{ free() (int64, bool) }); ok {
		if n, known := d.free(); known {
			free = n
		}
	}
	used := s.usage().Bytes
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.free, s.room.usedThen = free, used
}

// bounds computes the limits from the configuration and the disk.
func (s *Store) bounds() bounds {
	s.room.mu.Lock()
	free, then := s.room.free, s.room.usedThen
	s.room.mu.Unlock()
	none := GCCount{math.MaxInt64, math.MaxInt64}
	b := bounds{none, none, none}
	lower := func(hard, trigger, low *int64, limit int64, low2 float64) {
		lowest := int64(float64(limit) * low2)
		*hard, *trigger, *low = min(*hard, limit), min(*trigger, lowest+(limit-lowest)/2), min(*low, lowest)
	}
	for _, limit := range []int64{int64(s.cfg.MaxBytes), s.memoryCap()} {
		if limit > 0 {
			lower(&b.hard.Bytes, &b.trigger.Bytes, &b.low.Bytes, limit, s.cfg.LowWater)
		}
	}
	if n := s.cfg.MaxObjects; n > 0 {
		lower(&b.hard.Objects, &b.trigger.Objects, &b.low.Objects, n, s.cfg.LowWater)
	}
	if reserve := int64(s.cfg.ReserveBytes); free >= 0 {
		b.hard.Bytes = min(b.hard.Bytes, max(0, then+free-reserve))
		limit := max(0, then+free-2*reserve)
		b.trigger.Bytes = min(b.trigger.Bytes, limit)
		b.low.Bytes = min(b.low.Bytes, int64(float64(limit)*s.cfg.LowWater))
	}
	return b
}

// memoryCap is how many bytes of objects the memory backend can hold; 0 for
// another backend. What the objects take beside them is left out: rounding, the
// outboards, with as much again for those of puts under way, and objects that
// are removed and still being read.
func (s *Store) memoryCap() int64 {
	if s.cfg.Backend != BackendMemory {
		return 0
	}
	limit, ram, used := int64(s.cfg.MemoryBytes), s.RAM(), s.usage().Bytes
	outboards := func(n int64) int64 { return n / (b3.GroupSize / b3.ParentSize) }
	removed := max(0, ram.Used-ram.Wasted-used-outboards(used))
	return max(1, limit-2*outboards(limit)-ram.Wasted-removed)
}

// Space says how full the store is. It does no I/O and works in every phase.
func (s *Store) Space() Space {
	b := s.bounds()
	sp := Space{Used: s.usage(), Max: b.hard, Low: b.low, Reserve: int64(s.cfg.ReserveBytes)}
	for _, n := range []*int64{&sp.Max.Bytes, &sp.Max.Objects, &sp.Low.Bytes, &sp.Low.Objects} {
		if *n == math.MaxInt64 {
			*n = 0
		}
	}
	s.room.mu.Lock()
	sp.Free, sp.Full, sp.FullReason = s.room.free, s.room.full, s.room.reason
	s.room.mu.Unlock()
	last := s.gc.latest()
	sp.Evictable, sp.Pinned = last.Classes[GCCache], last.Classes[GCPinned]
	return sp
}

func (g *collector) latest() GCReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// take takes n within the bounds, or nothing.
func (s *Store) take(n GCCount) bool {
	s.room.bytes.Add(n.Bytes)
	s.room.objects.Add(n.Objects)
	use, b := s.usage(), s.bounds()
	if use.Bytes <= b.hard.Bytes && use.Objects <= b.hard.Objects {
		return true
	}
	s.give(n)
	return false
}

// give gives back what take took: it is counted with the objects now, or gone.
func (s *Store) give(n GCCount) {
	s.room.bytes.Add(-n.Bytes)
	s.room.objects.Add(-n.Objects)
}

// takeRoom takes n, at once or after an eviction that it asks for and waits
// for, 5 s at most. Otherwise it is no_space, before anything was written.
func (s *Store) takeRoom(ctx context.Context, n GCCount) error {
	if err := s.waitRoom(ctx.Done(), n); !errors.Is(err, errGone) {
		return err
	}
	return ctx.Err()
}

// errGone says that whoever waited does not want it any more.
var errGone = errors.New("gone")

// waitRoom is takeRoom until gone is closed.
func (s *Store) waitRoom(gone <-chan struct{}, n GCCount) error {
	if s.take(n) {
		return nil
	}
	if s.poll(); s.take(n) {
		return nil
	}
	if s.gc.vain() {
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
		moved, ended := s.gc.watch()
		if s.poll(); s.take(n) {
			return nil
		}
		if ended >= enough { // one that began after this wait could not help
			return s.fullError(n)
		}
		s.gc.kick()
		select {
		case <-moved:
		case <-timer.C:
			return s.fullError(n)
		case <-gone:
			return errGone
		case <-s.stop:
			return ErrDraining
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

// watch returns what is closed at the next removal or end of a collection, and
// how many have ended.
func (g *collector) watch() (<-chan struct{}, int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.progress, g.done.Ended
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
func (s *Store) fullError(n GCCount) error {
	s.metrics.gc.refused.Inc()
	s.gc.mu.Lock()
	lastErr := s.gc.lastErr
	s.gc.mu.Unlock()
	sp := s.Space()
	human := func(n int64) string { return admission.Bytes(n).Human() }
	var what string
	switch {
	case sp.Max.Objects > 0 && sp.Used.Objects >= sp.Max.Objects:
		what = fmt.Sprintf("the store has %d objects, store.max_objects are %d", sp.Used.Objects, sp.Max.Objects)
	case s.cfg.MaxBytes > 0 && sp.Max.Bytes == int64(s.cfg.MaxBytes):
		what = fmt.Sprintf("the store holds %s of %s (store.max_bytes), and %s more are asked for", human(sp.Used.Bytes), human(sp.Max.Bytes), human(n.Bytes))
	case s.memoryCap() > 0:
		what = fmt.Sprintf("the store holds %s of %s (store.memory_bytes), and %s more are asked for", human(sp.Used.Bytes), human(sp.Max.Bytes), human(n.Bytes))
	default:
		what = fmt.Sprintf("the disk is full: %s are free, %s of them reserved (store.reserve_bytes), and %s more are asked for", human(max(sp.Free, 0)), human(sp.Reserve), human(n.Bytes))
	}
	fix := "unpin what you do not need, `allium gc plan` shows what holds what"
	if lastErr != nil && status.Of(lastErr) == status.Conflict {
		fix = lastErr.Error()
	}
	return status.Errorf(status.NoSpace, "store: %s; %s are pinned, %s could be evicted; %s", what, human(sp.Pinned.Bytes), human(sp.Evictable.Bytes), fix)
}

// growing asks for room as a stream of unknown length comes in.
type growing struct {
	ctx context.Context
	s   *Store
	r   io.Reader
	got int64   // bytes read
	has GCCount // taken
}

func (g *growing) Read(p []byte) (int, error) {
	if g.got >= g.has.Bytes {
		if err := g.grow(); err != nil {
			return 0, err
		}
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.has.Bytes-g.got)])
	g.got += int64(n)
	return n, err
}

func (g *growing) grow() error {
	more := GCCount{Bytes: growth}
	if g.has.Objects == 0 {
		more.Objects = 1
	}
	if err := g.s.takeRoom(g.ctx, more); err != nil {
		return err
	}
	g.has.Bytes += more.Bytes
	g.has.Objects += more.Objects
	return nil
}

// done gives the room back.
func (g *growing) done() { g.s.give(g.has) }

// evictLoop keeps the store below its bounds until ctx is done.
func (s *Store) evictLoop(ctx context.Context) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		s.poll()
		use, b := s.usage(), s.bounds()
		s.judge(use, b)
		if (b.over(use) || s.gc.hurried()) && !s.gc.vain() {
			s.evictNow(ctx)
		}
		select {
		case <-tick.C:
		case <-s.gc.wake:
		case <-ctx.Done():
			return
		}
	}
}

// evictNow runs one eviction and notes whether it was in vain.
func (s *Store) evictNow(ctx context.Context) {
	r, err := s.GC(ctx, GCOptions{})
	s.poll()
	use, b := s.usage(), s.bounds()
	if err != nil || b.over(use) || r.Classes[GCRemoved].Objects == 0 {
		s.gc.mu.Lock()
		s.gc.notUntil = time.Now().Add(vainPause)
		s.gc.mu.Unlock()
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrDraining) {
			s.log.Warn("the store could not evict what is used least", "err", err)
		}
	}
	s.judge(use, b)
	if n := r.Classes[GCRemoved]; n.Objects > 0 {
		s.log.Info("evicted what was used least recently", "objects", n.Objects, "bytes", n.Bytes, "took", r.Took.Round(time.Millisecond))
	}
}

// judge decides whether writes are off: it shuts when there is no room and an
// eviction made none, and opens at the low-water mark.
func (s *Store) judge(use GCCount, b bounds) {
	vain := s.gc.vain()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	m := &s.room
	reserve := int64(s.cfg.ReserveBytes)
	switch {
	case m.free >= 0 && m.free < reserve:
		m.full, m.reason = true, "the disk has less free than store.reserve_bytes; free disk space, or unpin what is not needed"
	case vain && (use.Bytes >= b.trigger.Bytes || use.Objects >= b.trigger.Objects):
		m.full, m.reason = true, "pins hold as much as the store may keep; unpin what is not needed, or raise store.max_bytes or store.max_objects"
	case m.full && use.Bytes <= b.low.Bytes && use.Objects <= b.low.Objects && (m.free < 0 || m.free >= 2*reserve || reserve == 0):
		m.full, m.reason = false, ""
	}
}
