package b3

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// cachedLevels is the most levels of a tree that a Reader caches: 4,095 parents,
// 272 KiB with their states.
const cachedLevels = 12

// parentCache holds the proved parents of the upper levels of one object's tree.
// A parent is written once and never changes. It is safe for concurrent use.
type parentCache struct {
	slots []parentSlot // the root is at 1; the children of n are at 2n and 2n+1
}

type parentSlot struct {
	state atomic.Uint32
	cvs   [ParentSize]byte // written in slotFilling, read in slotFilled
}

// The states of a parentSlot.
const (
	slotEmpty uint32 = iota
	slotFilling
	slotFilled
)

// cacheSlots returns the number of slots of the cache for an object of n groups.
func cacheSlots(n int64) int { return 1 << min(cachedLevels, bits.Len64(uint64(n-1))) }

// get returns the proved parent in slot, or nil.
func (t *parentCache) get(slot int) *[ParentSize]byte {
	s := &t.slots[slot]
	if s.state.Load() != slotFilled {
		return nil
	}
	return &s.cvs
}

// put stores a proved parent, unless the slot has one or another call fills it.
func (t *parentCache) put(slot int, cvs *[ParentSize]byte) {
	s := &t.slots[slot]
	if s.state.CompareAndSwap(slotEmpty, slotFilling) {
		s.cvs = *cvs
		s.state.Store(slotFilled)
	}
}

// slot returns the cache slot of the walk's next item, which must be a parent.
// The bits of the slot after the first are the path: 0 is left, 1 is right.
func (w *Walk) slot() int {
	slot := 1
	for i := range w.path {
		lo := w.lo
		if i+1 < len(w.path) {
			lo = w.path[i+1].lo
		}
		slot *= 2
		if lo != w.path[i].lo {
			slot++
		}
	}
	return slot
}

// assume accepts cvs, which was proved before, as the next item, a parent.
func (w *Walk) assume(cvs *[ParentSize]byte) {
	w.path = append(w.path, parent{w.lo, w.hi, *cvs})
	w.advance()
}

// parentBlock holds parents that a walk has read ahead, unverified: those of a subtree, which follow each
// other in the outboard.
type parentBlock struct {
	first, n int64 // parents [first, first+n) of the outboard
	kept     bool  // with its walk, after the last item too, as seek follows
	buf      [blockParents * ParentSize]byte
}

const (
	blockParents = 64 // most parents of a subtree that are read together
	topParents   = 16 // most parents that are read together of a larger subtree: its right edge
)

var parentBlocks = sync.Pool{New: func() any { return new(parentBlock) }}

// readParent reads the walk's next item, a parent, into p.
func (w *Walk) readParent(src Source, p []byte) error {
	node := w.next.Node
	if b := w.block; b != nil && b.first <= node && node < b.first+b.n {
		copy(p, b.buf[(node-b.first)*ParentSize:])
		return nil
	}
	if w.block == nil {
		w.block = parentBlocks.Get().(*parentBlock)
	}
	b := w.block
	b.n = 0
	most := w.hi - w.lo - 1
	if most > blockParents {
		most = topParents
	}
	n, err := src.ReadParents(node, b.buf[:most*ParentSize])
	if err != nil {
		return err
	}
	b.first, b.n = node-int64(n)+1, int64(n)
	copy(p, b.buf[(n-1)*ParentSize:])
	return nil
}

// releaseBlock frees the block if the walk has ended. The block of a walk that is given up earlier is
// left to the garbage collector.
func (w *Walk) releaseBlock() {
	if w.block != nil && len(w.spans) == 0 && !w.block.kept {
		parentBlocks.Put(w.block)
		w.block = nil
	}
}
