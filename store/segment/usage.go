package segment

import (
	"maps"
	"sync"

	"allium/store/index"
	"allium/store/meta"
)

// usage knows how much of each segment is live, so that compaction finds its
// work and `stat` its figures without a scan. The writer changes it; it is
// written down at an orderly close and counted again at any other open.
type usage struct {
	mu     sync.Mutex
	segs   map[uint64]figures
	low    uint64 // the lowest number, 0 for none
	tail   uint64 // the segment being written
	end    int64  // of the records in it
	least  int64  // bytes of garbage for which it is ended early
	told   bool   // that it is wasted
	spares int64  // bytes of segments kept to be used again
	kept   int    // their number
}

// figures is what one segment holds.
type figures struct {
	size  int64 // of the file
	live  int64 // bytes of records that the index needs
	tombs int64 // bytes of tombstones and dropped pins, needed while an older segment is there
	end   int64 // of its last record, when it is sealed; 0 where that is not known
	gone  bool  // it is not part of the log any more, and its file is about to go
}

// wasted reports whether less than half of the segment is needed.
func (u figures) wasted(oldest bool) bool { return 2*u.needed(oldest) < u.size }

// wastedBy is wasted, or when space is short whether a quarter of the segment is
// not needed: to move the rest is dear, but less so than to evict more.
func (u figures) wastedBy(oldest, short bool) bool {
	return u.wasted(oldest) || short && 4*u.needed(oldest) < 3*u.size
}

// needed is the bytes of records that are needed.
func (u figures) needed(oldest bool) int64 {
	if oldest {
		return max(0, u.live)
	}
	return max(0, u.live) + u.tombs
}

// reset replaces everything.
func (u *usage) reset(segs map[uint64]figures) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.segs = segs
	u.settle()
}

// begin turns to a new segment that is written, of size bytes with records up to
// end. It is ended early when least bytes of it, and half of it, are garbage.
func (u *usage) begin(num uint64, end, size, least int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.segs == nil {
		u.segs = map[uint64]figures{}
	}
	s := u.segs[num]
	s.size = size
	u.segs[num], u.tail, u.end, u.least, u.told = s, num, end, least, false
	u.settle()
}

// seal ends the segment that was written, whose file is size bytes long. It
// reports whether it is wasted already.
func (u *usage) seal(size int64) (wasted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	num, end := u.tail, u.end
	u.tail, u.end = 0, 0
	s, ok := u.segs[num]
	if !ok {
		return false
	}
	s.size, s.end = size, end
	u.segs[num] = s
	return s.wasted(num == u.low)
}

// delta is a change of what a segment holds.
type delta struct {
	seg  uint64
	live int64
	tomb int64
}

// apply adds deltas; end is where the segment being written ends now. It
// reports whether a sealed segment is wasted, or the one being written for the
// first time.
func (u *usage) apply(ds []delta, end int64) (wasted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, d := range ds {
		s, ok := u.segs[d.seg]
		if !ok {
			continue // retired: a damaged object was left behind
		}
		s.live += d.live
		s.tombs += d.tomb
		if d.seg == u.tail {
			s.size = max(s.size, end)
		}
		u.segs[d.seg] = s
		wasted = wasted || d.seg != u.tail && s.wasted(d.seg == u.low)
	}
	if u.tail != 0 {
		u.end = max(u.end, end)
	}
	if !u.told && u.tailIs() {
		u.told, wasted = true, true
	}
	return wasted
}

// tailIs reports whether it pays to end the segment being written: what is
// garbage in it is more than what would be moved, and worth a new file. mu is
// held.
func (u *usage) tailIs() bool {
	s, ok := u.segs[u.tail]
	if !ok {
		return false
	}
	s.size = u.end
	oldest := u.tail == u.low
	return s.wasted(oldest) && u.end-s.needed(oldest) >= u.least
}

func (u *usage) tailWasted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tailIs()
}

// where is the end of the log, of segment 0 when none is written.
func (u *usage) where() index.Position {
	u.mu.Lock()
	defer u.mu.Unlock()
	return index.Position{Seg: u.tail, Off: u.end}
}

// settle finds the lowest number. mu is held.
func (u *usage) settle() {
	u.low = 0
	for num := range u.segs {
		if u.low == 0 || num < u.low {
			u.low = num
		}
	}
}

// hasOlder reports whether there is a segment before num.
func (u *usage) hasOlder(num uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.low != 0 && u.low < num
}

func (u *usage) has(num uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.segs[num]
	return ok
}

func (u *usage) get(num uint64) figures {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.segs[num]
}

// wastedBytes is what the compaction of the segments that are wasted will give
// back.
func (u *usage) wastedBytes(short bool) (n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for num, s := range u.segs {
		if num != u.tail && s.wastedBy(num == u.low, short) {
			n += s.size - s.needed(num == u.low)
		}
	}
	return n
}

// worst is the sealed segment with the fewest live bytes of those that are
// wasted, 0 for none.
func (u *usage) worst(short bool) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := uint64(0)
	for num, s := range u.segs {
		if num == u.tail || !s.wastedBy(num == u.low, short) {
			continue
		}
		if best := u.segs[found]; found == 0 || s.live < best.live || s.live == best.live && num < found {
			found = num
		}
	}
	return found
}

// logSet is the segments that the log consists of, each with the end of its last
// record where that is known.
func (u *usage) logSet() map[uint64]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	set := make(map[uint64]int64, len(u.segs))
	for num, s := range u.segs {
		if !s.gone {
			set[num] = s.end
		}
	}
	return set
}

// retiring notes that segments are not part of the log any more, and returns the
// set for the index, where they stay until their files are gone.
func (u *usage) retiring(nums []uint64) map[uint64]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, num := range nums {
		if s, ok := u.segs[num]; ok {
			s.gone = true
			u.segs[num] = s
		}
	}
	set := make(map[uint64]int64, len(u.segs))
	for num, s := range u.segs {
		set[num] = s.end
		if s.gone {
			set[num] = retiredEnd
		}
	}
	return set
}

// retiredEnd stands for the end of a segment that is not part of the log any
// more, and whose file is about to go.
const retiredEnd = meta.MaxSegmentBytes

// retire forgets a segment.
func (u *usage) retire(num uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.segs, num)
	u.settle()
}

// spare is told of a file kept to be used again, unspare that it is used.
func (u *usage) spare(size int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spares += size
	u.kept++
}

func (u *usage) unspare(size int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spares -= size
	u.kept--
}

func (u *usage) snapshot() map[uint64]figures {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.segs)
}

// tell returns the figures of all segments.
func (u *usage) tell() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	to := Usage{Segments: len(u.segs), Spares: u.kept, SpareBytes: u.spares, Bytes: u.spares}
	for _, s := range u.segs {
		to.Bytes += s.size
		to.LiveBytes += max(0, s.live) + s.tombs
	}
	return to
}
