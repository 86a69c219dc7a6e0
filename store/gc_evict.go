package store

import (
	"context"
	"errors"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// evictLoop keeps the store below its bounds until ctx is done.
func (s *Store) evictLoop(ctx context.Context) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		s.poll()
		use, b := s.usage(), s.bounds()
		s.judge(use, b)
		if (b.over(use) || s.gc.hurried()) && !s.inVain() {
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
	// Above the bound it may be only because puts went on.
	if err != nil || r.short() || r.Classes[GCRemoved].Objects == 0 && s.squeezed() {
		s.gc.mu.Lock()
		s.gc.notUntil = time.Now().Add(vainPause)
		s.gc.mu.Unlock()
		if err != nil && ctx.Err() == nil && !errors.Is(err, meta.ErrDraining) {
			s.log.Warn("the store could not evict what is used least", "err", err)
		}
	}
	s.judge(use, b)
	if n := r.Classes[GCRemoved]; n.Objects > 0 {
		s.log.Info("evicted what was used least recently", "objects", n.Objects, "bytes", n.Bytes, "took", r.Took.Round(time.Millisecond))
	}
}

// inVain reports whether an eviction would remove nothing: the latest one could
// not make room, just now, or damage is open.
func (s *Store) inVain() bool {
	open, _ := s.OpenDamage()
	return open > 0 || s.gc.vain()
}

// squeezed reports whether the disk itself has little left. What was removed shows
// there when segments have been compacted, and not at once.
func (s *Store) squeezed() bool {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.free >= 0 && s.room.free < 2*int64(s.cfg.ReserveBytes)
}

// spaceAgain is how many bytes must fit before writes that are off are on again,
// of a small store a 16th.
const spaceAgain = 1 << 20

func (b bounds) again() int64 {
	return min(spaceAgain, max(partialCharge(growth), min(b.hard.Bytes, b.hard.local)/16))
}

// judge decides whether writes are off, by what a put would meet: it shuts when
// there is no room for one more group and an eviction made none, and opens when
// there is room for spaceAgain.
func (s *Store) judge(use amount, b bounds) {
	vain := s.gc.vain()
	why := "pins hold as much as the store may keep; unpin what is not needed, or raise store.max_bytes or store.max_objects"
	if open, _ := s.OpenDamage(); open > 0 {
		vain, why = true, "nothing is evicted: "+blockedBy(open)
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	m := &s.room
	reserve := int64(s.cfg.ReserveBytes)
	put := func(n int64) amount {
		return amount{meta.Count{Objects: use.Objects + 1, Bytes: use.Bytes + n}, use.local + n}
	}
	switch {
	case m.free >= 0 && m.free < reserve+2*b3.GroupSize:
		m.full, m.reason = true, "the disk has less free than store.reserve_bytes; free disk space, or unpin what is not needed"
	case vain && put(partialCharge(growth)).passes(b.hard):
		m.full, m.reason = true, why
	case m.full && !put(b.again()).passes(b.hard) && (m.free < 0 || m.free >= reserve+b.again()):
		m.full, m.reason = false, ""
	}
}
