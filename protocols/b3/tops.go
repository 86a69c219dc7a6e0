package b3

import (
	"math/bits"
	"sync/atomic"
)

// topLevels bounds how many levels of a tree a Reader keeps: 4,095 parents, of
// 272 KiB with what is noted of them.
const topLevels = 12

// tops are the parents of the upper levels of one object's tree, as far as
// reads have proved them. A parent comes in once and does not change after
// that. It is safe for concurrent use.
type tops struct {
	slots []topSlot // the root has place 1, the children of n have 2n and 2n+1
}

type topSlot struct {
	state atomic.Uint32
	cvs   [ParentSize]byte // written while filling, read when filled
}

// States of a topSlot.
const (
	slotEmpty uint32 = iota
	slotFilling
	slotFilled
)

// topSlots is how many slots the tops of an object of n groups have.
func topSlots(n int64) int { return 1 << min(topLevels, bits.Len64(uint64(n-1))) }

// get returns a parent that was proved, nil when it was not.
func (t *tops) get(slot int) *[ParentSize]byte {
	s := &t.slots[slot]
	if s.state.Load() != slotFilled {
		return nil
	}
	return &s.cvs
}

// put keeps a proved parent.
func (t *tops) put(slot int, cvs *[ParentSize]byte) {
	s := &t.slots[slot]
	if s.state.CompareAndSwap(slotEmpty, slotFilling) {
		s.cvs = *cvs
		s.state.Store(slotFilled)
	}
}

// slot is the place of the walk's next item among the tops, if it is a parent:
// the path to it, one bit for each turn.
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

// assume takes the next item, a parent, as proved before.
func (w *Walk) assume(cvs *[ParentSize]byte) {
	w.path = append(w.path, parent{w.lo, w.hi, *cvs})
	w.advance()
}
