package gc

import (
	"math/bits"

	"allium/store/meta"
)

// histogram counts candidates by the age of their last use: exact up to two
// minutes, to 1.6 % beyond.
type histogram struct {
	now   meta.Second
	count [26*64 + 64]amount
}

func (h *histogram) bucket(used meta.Second) int {
	age := uint32(0)
	if used < h.now {
		age = uint32(h.now - used)
	}
	shift := max(bits.Len32(age)-7, 0)
	return shift*64 + int(age>>shift)
}

// latest is the last second of use that is counted in bucket b.
func (h *histogram) latest(b int) meta.Second {
	shift := max(b/64-1, 0)
	return h.now - min(h.now, meta.Second(b-shift*64)<<shift)
}

// note counts a candidate and picks none.
func (h *histogram) note(o candidate) bool {
	h.count[h.bucket(o.Used)].add(o)
	return false
}

// reach is the bucket down to which candidates make need, and what it has to
// give of it; −1 when all of them do not.
func (h *histogram) reach(need amount) (last int, rest amount) {
	for last = len(h.count) - 1; last >= 0; last-- {
		if !need.passes(h.count[last]) {
			break
		}
		need = need.less(h.count[last])
	}
	return last, need
}

// oldest picks those used least recently, until they make need.
func (h *histogram) oldest(need amount) func(candidate) bool {
	last, rest := h.reach(need)
	// Of those in the last bucket only as many as are needed.
	return func(o candidate) bool {
		switch b := h.bucket(o.Used); {
		case b > last:
			return true
		case b < last || !rest.passes(amount{}):
			return false
		}
		var n amount
		n.add(o)
		rest = rest.less(n)
		return true
	}
}
