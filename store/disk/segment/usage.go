package segment

import (
	"maps"
	"sync"

	"allium/store/disk/tables"
	"allium/store/meta"
)

// usageTable counts the live bytes of each segment, so that compaction finds its candidates
// and `stat` its figures without a scan. The writer changes it. An orderly close saves it;
// any other open counts again.
type usageTable struct {
	mu           sync.Mutex // lock: leaf
	segs         map[uint64]segmentUsage
	oldest       uint64 // the lowest number; 0 for none
	tail         uint64 // the active segment; 0 for none
	tailEnd      int64  // offset behind its last record
	minGarbage   int64  // bytes of garbage in the active segment from which it is ended early
	tailReported bool   // apply has reported that the active segment is worth ending
}

// segmentUsage counts what one segment holds, in bytes.
type segmentUsage struct {
	size       int64 // of the file
	live       int64 // records that the index needs
	tombstones int64 // removals and dropped pins, needed while an older segment exists
	end        int64 // offset behind the last record of a sealed segment; 0 when unknown
	retired    bool  // the segment left the log, and its file is about to be removed
}

// worthCompacting reports whether less than half of the segment is needed.
func (u segmentUsage) worthCompacting(oldest bool) bool { return 2*u.needed(oldest) < u.size }

// worthCompactingIf is worthCompacting, but when space is short, a segment also qualifies if less than three quarters
// of it are needed. Moving the rest costs more, but less than evicting more objects.
func (u segmentUsage) worthCompactingIf(oldest, short bool) bool {
	return u.worthCompacting(oldest) || short && 4*u.needed(oldest) < 3*u.size
}

// needed returns the bytes of records that are needed. The oldest segment needs no
// removals.
func (u segmentUsage) needed(oldest bool) int64 {
	if oldest {
		return max(0, u.live)
	}
	return max(0, u.live) + u.tombstones
}

// reset replaces the figures of all segments.
func (u *usageTable) reset(segs map[uint64]segmentUsage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.segs = segs
	u.findOldest()
}

// beginTail makes num the active segment, of size bytes with records up to end. It is worth
// ending early when at least minGarbage bytes of it, and half of it, are garbage.
func (u *usageTable) beginTail(num uint64, end, size, minGarbage int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.segs == nil {
		u.segs = map[uint64]segmentUsage{}
	}
	s := u.segs[num]
	s.size = size
	u.segs[num] = s
	u.tail, u.tailEnd, u.minGarbage, u.tailReported = num, end, minGarbage, false
	u.findOldest()
}

// sealTail ends the active segment, whose file has size bytes. It reports whether the
// segment is worth compacting already.
func (u *usageTable) sealTail(size int64) (worthCompacting bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	num, end := u.tail, u.tailEnd
	u.tail, u.tailEnd = 0, 0
	s, ok := u.segs[num]
	if !ok {
		return false
	}
	s.size, s.end = size, end
	u.segs[num] = s
	return s.worthCompacting(num == u.oldest)
}

// delta is a change to the usage of one segment, in bytes.
type delta struct {
	seg  uint64
	live int64
	tomb int64
}

// apply adds deltas; end is the end of the active segment. It reports whether the compactor
// has work: a sealed segment is worth compacting, or the active one became worth ending.
func (u *usageTable) apply(ds []delta, end int64) (work bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, d := range ds {
		s, ok := u.segs[d.seg]
		if !ok {
			continue // the segment left the log: a damaged object was left behind in it
		}
		s.live += d.live
		s.tombstones += d.tomb
		if d.seg == u.tail {
			s.size = max(s.size, end)
		}
		u.segs[d.seg] = s
		work = work || d.seg != u.tail && s.worthCompacting(d.seg == u.oldest)
	}
	if u.tail != 0 {
		u.tailEnd = max(u.tailEnd, end)
	}
	if !u.tailReported && u.tailWorthSealingLocked() {
		u.tailReported, work = true, true
	}
	return work
}

// tailWorthSealingLocked reports whether the active segment is worth ending early: its
// garbage exceeds what would be moved, and justifies a new file. The caller holds mu.
func (u *usageTable) tailWorthSealingLocked() bool {
	s, ok := u.segs[u.tail]
	if !ok {
		return false
	}
	s.size = u.tailEnd
	oldest := u.tail == u.oldest
	return s.worthCompacting(oldest) && u.tailEnd-s.needed(oldest) >= u.minGarbage
}

func (u *usageTable) tailWorthSealing() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tailWorthSealingLocked()
}

// position returns the end of the log. Seg is 0 when no segment is active.
func (u *usageTable) position() tables.Position {
	u.mu.Lock()
	defer u.mu.Unlock()
	return tables.Position{Seg: u.tail, Off: u.tailEnd}
}

// findOldest updates u.oldest. The caller holds mu.
func (u *usageTable) findOldest() {
	u.oldest = 0
	for num := range u.segs {
		if u.oldest == 0 || num < u.oldest {
			u.oldest = num
		}
	}
}

// hasOlder reports whether a segment before num exists.
func (u *usageTable) hasOlder(num uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.oldest != 0 && u.oldest < num
}

func (u *usageTable) has(num uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.segs[num]
	return ok
}

func (u *usageTable) get(num uint64) segmentUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.segs[num]
}

// reclaimableBytes returns how many bytes compaction of the segments that are worth it
// gives back.
func (u *usageTable) reclaimableBytes(short bool) (n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for num, s := range u.segs {
		if num != u.tail && s.worthCompactingIf(num == u.oldest, short) {
			n += s.size - s.needed(num == u.oldest)
		}
	}
	return n
}

// candidate returns the segment to compact next: the one with the fewest live bytes of
// those worth compacting, 0 for none.
func (u *usageTable) candidate(short bool) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := uint64(0)
	for num, s := range u.segs {
		if num == u.tail || !s.worthCompactingIf(num == u.oldest, short) {
			continue
		}
		if best := u.segs[found]; found == 0 || s.live < best.live || s.live == best.live && num < found {
			found = num
		}
	}
	return found
}

// logEnds returns the segments of the log, each with the offset behind its last record, or
// 0 when that is not known.
func (u *usageTable) logEnds() map[uint64]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	set := make(map[uint64]int64, len(u.segs))
	for num, s := range u.segs {
		if !s.retired {
			set[num] = s.end
		}
	}
	return set
}

// markRetired marks segments that left the log. It returns the ends of all segments for the
// index, where a retired one has retiredEnd until its file is removed.
func (u *usageTable) markRetired(nums []uint64) map[uint64]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, num := range nums {
		if s, ok := u.segs[num]; ok {
			s.retired = true
			u.segs[num] = s
		}
	}
	set := make(map[uint64]int64, len(u.segs))
	for num, s := range u.segs {
		set[num] = s.end
		if s.retired {
			set[num] = retiredEnd
		}
	}
	return set
}

// retiredEnd is the end that the index has for a segment that left the log and whose file
// is about to be removed.
const retiredEnd = meta.MaxSegmentBytes

// remove forgets a segment.
func (u *usageTable) remove(num uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.segs, num)
	u.findOldest()
}

func (u *usageTable) snapshot() map[uint64]segmentUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.segs)
}

// total returns the sum over all segments.
func (u *usageTable) total() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	to := Usage{Segments: len(u.segs)}
	for _, s := range u.segs {
		to.Bytes += s.size
		to.LiveBytes += max(0, s.live) + s.tombstones
	}
	return to
}
