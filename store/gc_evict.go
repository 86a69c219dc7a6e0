package store

import (
	"context"
	"errors"
	"time"
)

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
	// Above the bound it may be only because puts went on.
	if err != nil || r.short() || r.Classes[GCRemoved].Objects == 0 && s.squeezed() {
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

// squeezed reports whether the disk itself has little left. What was removed shows
// there when segments have been compacted, and not at once.
func (s *Store) squeezed() bool {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.free >= 0 && s.room.free < 2*int64(s.cfg.ReserveBytes)
}

// judge decides whether writes are off: it shuts when there is no room and an
// eviction made none, and opens at the low-water mark.
func (s *Store) judge(use amount, b bounds) {
	vain := s.gc.vain()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	m := &s.room
	reserve := int64(s.cfg.ReserveBytes)
	switch {
	case m.free >= 0 && m.free < reserve:
		m.full, m.reason = true, "the disk has less free than store.reserve_bytes; free disk space, or unpin what is not needed"
	case vain && (use.Bytes >= b.trigger.Bytes || use.Objects >= b.trigger.Objects || use.local >= b.trigger.local):
		m.full, m.reason = true, "pins hold as much as the store may keep; unpin what is not needed, or raise store.max_bytes or store.max_objects"
	case m.full && !use.passes(b.low) && (m.free < 0 || m.free >= 2*reserve || reserve == 0):
		m.full, m.reason = false, ""
	}
}
