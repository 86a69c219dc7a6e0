package gc

import (
	"math/bits"

	"allium/store/meta"
)

// histogram counts candidates by the age of their last use. Ages are exact up to two
// minutes, and within 1.6 % beyond.
type histogram struct {
	now     meta.Second
	amounts [26*64 + 64]amount
}

// bucket returns the bucket of a last use. Higher buckets are older.
func (h *histogram) bucket(used meta.Second) int {
	age := uint32(0)
	if used < h.now {
		age = uint32(h.now - used)
	}
	shift := max(bits.Len32(age)-7, 0)
	return shift*64 + int(age>>shift)
}

// newestUse returns the latest second of use that falls in bucket b.
func (h *histogram) newestUse(b int) meta.Second {
	shift := max(b/64-1, 0)
	return h.now - min(h.now, meta.Second(b-shift*64)<<shift)
}

// add counts a candidate. It returns false, as a pick function that selects nothing.
func (h *histogram) add(o candidate) bool {
	h.amounts[h.bucket(o.Used)].add(o)
	return false
}

// lastBucket returns the bucket down to which the oldest candidates add up to need, and how
// much that bucket has to give. last is −1 when all candidates are less than need.
func (h *histogram) lastBucket(need amount) (last int, rest amount) {
	for last = len(h.amounts) - 1; last >= 0; last-- {
		if !need.exceeds(h.amounts[last]) {
			break
		}
		need = need.minus(h.amounts[last])
	}
	return last, need
}

// pickOldest returns a pick function that selects the least recently used candidates until
// they add up to need.
func (h *histogram) pickOldest(need amount) func(candidate) bool {
	last, rest := h.lastBucket(need)
	// From the last bucket, select only as many as are needed.
	return func(o candidate) bool {
		switch b := h.bucket(o.Used); {
		case b > last:
			return true
		case b < last || !rest.exceeds(amount{}):
			return false
		}
		var n amount
		n.add(o)
		rest = rest.minus(n)
		return true
	}
}
