package store

import (
	"math"

	"allium/protocols/b3"
	"allium/store/arena"
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

// amount is what the store holds, or a bound of it. The bytes of large objects
// in a bucket are not local.
type amount struct {
	GCCount
	local int64 // bytes on the node's own disk
}

func (a *amount) add(o candidate) {
	a.GCCount.add(o.charge)
	a.local += o.local
}

// less is a without b.
func (a amount) less(b amount) amount {
	return amount{GCCount{a.Objects - b.Objects, a.Bytes - b.Bytes}, a.local - b.local}
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
	return amount{GCCount{max(0, n.Objects), max(0, n.Bytes)}, max(0, n.local)}
}

// fits reports whether there is room for n after an eviction.
func (b bounds) fits(n GCCount) bool {
	return (b.hard.Bytes == math.MaxInt64 || n.Bytes <= b.hard.Bytes-b.low.Bytes) &&
		(b.hard.Objects == math.MaxInt64 || n.Objects <= b.hard.Objects-b.low.Objects)
}

func (b bounds) over(use amount) bool { return use.passes(b.trigger) }

// usage is what is used now: a deferred object counts from its put on.
func (s *Store) usage() amount {
	t := s.backend.totals()
	partial := s.partials.bytes.Load()
	n := amount{GCCount: GCCount{
		Objects: t.objects.Load() + t.pendingObjects.Load() + s.room.objects.Load(),
		Bytes:   t.bytes.Load() + t.outboards.Load() + t.pendingBytes.Load() + partialCharge(partial) + s.room.bytes.Load(),
	}}
	n.local = n.Bytes
	if s.cfg.Backend == BackendS3 {
		n.local -= t.large.Load()
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
func (s *Store) localCharge(e entry) int64 {
	if s.cfg.Backend == BackendS3 && !small(e.size) {
		return b3.OutboardSize(e.size)
	}
	return charge(e.size)
}

// free is what the disk has left, and what the compactor is about to give back
// of it. When that is needed the compactor is told.
func (d *disk) free() (free, coming int64, known bool) {
	u, err := d.fs.GetDiskUsage(d.cfg.Dir)
	if err != nil {
		return -1, 0, false
	}
	short := d.compact.short()
	if coming = d.segments.use.wastedBytes(short); short && coming > 0 {
		nudge(d.segments.tidy)
	}
	return int64(min(u.AvailBytes, math.MaxInt64)), coming, true
}

// LookAtDisk makes the store ask its disk now how much is free, as it otherwise
// does every 5 seconds and before it refuses a write. It does not wait.
func (s *Store) LookAtDisk() { s.gc.kick() }

// poll asks the disk how much is free.
func (s *Store) poll() {
	free, coming := int64(-1), int64(0)
	if d, ok := s.backend.(interface{ free() (int64, int64, bool) }); ok {
		if n, more, known := d.free(); known {
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
	none := amount{GCCount{math.MaxInt64, math.MaxInt64}, math.MaxInt64}
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
	sp := Space{Used: s.usage().GCCount, Max: b.hard.GCCount, Low: b.low.GCCount, Reserve: int64(s.cfg.ReserveBytes)}
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
