package store

import (
	"math"

	"allium/protocols/b3"
	"allium/store/arena"
	"allium/store/meta"
)

// Space is how full the store is.
type Space struct {
	Used       meta.Count // objects and bytes: outboards, partial objects and puts under way included
	Max        meta.Count // 0 is no bound; of bytes the smallest of max_bytes, the memory cap, and what the disk has beyond the reserve
	Low        meta.Count // where an eviction ends
	Free       int64      // bytes free on the disk, the ballast among them, −1 when it cannot tell
	Reserve    int64      // bytes that stay free
	Evictable  meta.Count // that nothing held when the latest collection looked
	Pinned     meta.Count // that a pin held then
	Again      int64      // bytes that must fit before a full store takes puts again
	Full       bool       // puts are refused until enough was removed
	FullReason string     // why, in a sentence
}

// amount is what the store holds, or a bound of it. The bytes of large objects
// in a bucket are not local.
type amount struct {
	meta.Count
	local int64 // bytes on the node's own disk
}

func (a *amount) add(o candidate) {
	a.Count.Add(o.charge)
	a.local += o.local
}

// less is a without b.
func (a amount) less(b amount) amount {
	return amount{meta.Count{Objects: a.Objects - b.Objects, Bytes: a.Bytes - b.Bytes}, a.local - b.local}
}

// passes reports whether a is above b in any way.
func (a amount) passes(b amount) bool {
	return a.Objects > b.Objects || a.Bytes > b.Bytes || a.local > b.local
}

// bounds are the limits in force.
type bounds struct {
	hard    amount // no put may pass it
	trigger amount // above it an eviction begins
	low     amount // and ends here
}

// excess is what use has above the low-water mark.
func (b bounds) excess(use amount) amount {
	n := use.less(b.low)
	return amount{meta.Count{Objects: max(0, n.Objects), Bytes: max(0, n.Bytes)}, max(0, n.local)}
}

// fits reports whether there is room for n after an eviction.
func (b bounds) fits(n meta.Count) bool {
	return (b.hard.Bytes == math.MaxInt64 || n.Bytes <= b.hard.Bytes-b.low.Bytes) &&
		(b.hard.Objects == math.MaxInt64 || n.Objects <= b.hard.Objects-b.low.Objects)
}

func (b bounds) over(use amount) bool { return use.passes(b.trigger) }

// usage is what is used now: a deferred object counts from its put on.
func (s *Store) usage() amount {
	t := s.backend.Totals()
	partial := s.partials.bytes.Load()
	n := amount{Count: meta.Count{
		Objects: t.Objects.Load() + t.PendingObjects.Load() + s.room.objects.Load(),
		Bytes:   t.Bytes.Load() + t.OutboardBytes.Load() + t.PendingBytes.Load() + partialCharge(partial) + s.room.bytes.Load(),
	}}
	n.local = n.Bytes
	if s.cfg.Backend == BackendS3 {
		n.local -= t.LargeBytes.Load()
	}
	return n
}

// charge is what an object of that size takes: its bytes and its outboard.
func charge(size int64) int64 { return size + b3.OutboardSize(size) }

// partialCharge is what held bytes of partial objects take, about: which parents
// are here is not counted.
func partialCharge(held int64) int64 { return held + outboardShare(held) }

// outboardShare is the outboard of n bytes of large objects, rounded up.
func outboardShare(n int64) int64 {
	const share = b3.GroupSize / b3.ParentSize
	return (n + share - 1) / share
}

// localCharge is the part of e's charge that is on the node's own disk.
func (s *Store) localCharge(e meta.Entry) int64 {
	if s.cfg.Backend == BackendS3 && !meta.Small(e.Size) {
		return b3.OutboardSize(e.Size)
	}
	return charge(e.Size)
}

// LookAtDisk makes the store ask its disk now how much is free, as it otherwise
// does every 5 seconds and before it refuses a write. It does not wait.
func (s *Store) LookAtDisk() { s.gc.kick() }

// poll asks the disk how much is free.
func (s *Store) poll() {
	free, coming := int64(-1), int64(0)
	if d, ok := s.backend.(freer); ok {
		if n, more, known := d.Free(); known {
			free, coming = n, more
		}
	}
	used := s.usage().local - s.room.unwritten.Load()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.free, s.room.coming, s.room.usedThen = free, coming, used
}

// bounds computes the limits from the configuration and the disk. What the
// compactor is about to give back counts as free for evictions, or each would
// remove more before the space of the one before is there; for puts it does not.
func (s *Store) bounds() bounds {
	s.room.mu.Lock()
	free, coming, then := s.room.free, s.room.coming, s.room.usedThen
	s.room.mu.Unlock()
	none := amount{meta.Count{Objects: math.MaxInt64, Bytes: math.MaxInt64}, math.MaxInt64}
	b := bounds{none, none, none}
	lower := func(hard, trigger, low *int64, limit int64) {
		lowest := int64(float64(limit) * s.cfg.LowWater)
		*hard, *trigger, *low = min(*hard, limit), min(*trigger, lowest+(limit-lowest)/2), min(*low, lowest)
	}
	for _, limit := range []int64{int64(s.cfg.MaxBytes), s.memoryCap()} {
		if limit > 0 {
			lower(&b.hard.Bytes, &b.trigger.Bytes, &b.low.Bytes, limit)
		}
	}
	if n := s.cfg.MaxObjects; n > 0 {
		lower(&b.hard.Objects, &b.trigger.Objects, &b.low.Objects, n)
	}
	if reserve := int64(s.cfg.ReserveBytes); free >= 0 {
		limit := max(0, then+free+coming-2*reserve)
		b.hard.local = max(0, then+free-reserve)
		b.trigger.local = limit
		b.low.local = int64(float64(limit) * s.cfg.LowWater)
	}
	return b
}

// taking is what a small object of n bytes takes while it is put: in RAM whole
// blocks.
func (s *Store) taking(n int64) int64 {
	if s.cfg.Backend == BackendMemory {
		return arena.Held(int(n))
	}
	return n
}

// memoryCap is how many bytes of objects the memory backend can hold; 0 for
// another backend. What the objects take beside them is left out: rounding, the
// parents of partial objects that are not counted, and objects that are removed
// and still being read.
func (s *Store) memoryCap() int64 {
	if s.cfg.Backend != BackendMemory {
		return 0
	}
	limit, ram, used := int64(s.cfg.MemoryBytes), s.RAM(), s.usage().Bytes
	removed := max(0, ram.Used-ram.Wasted-used)
	return max(1, limit-outboardShare(limit)-ram.Wasted-removed)
}

// Space says how full the store is. It does no I/O and works in every phase.
func (s *Store) Space() Space {
	b := s.bounds()
	if s.cfg.Backend != BackendS3 { // all bytes are local
		b.hard.Bytes, b.low.Bytes = min(b.hard.Bytes, b.hard.local), min(b.low.Bytes, b.low.local)
	}
	sp := Space{Used: s.usage().Count, Max: b.hard.Count, Low: b.low.Count, Reserve: int64(s.cfg.ReserveBytes), Again: b.again()}
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
