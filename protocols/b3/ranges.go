package b3

import (
	"cmp"
	"slices"

	"allium/protocols/status"
)

// Range is a range of an object's bytes, as OAP1 §9 writes it: from Start up to
// but without End, or to the end of the object when End is −1. A range with
// Start == End selects nothing.
type Range struct{ Start, End int64 }

// span is a range of groups, hi exclusive.
type span struct{ lo, hi int64 }

// spans widens ranges to groups of an object of size bytes, sorted and merged.
// What lies past the end of the object is cut off. No ranges is the whole
// object, and so is [0, −1]: both take the one group of the empty object.
func spans(size int64, ranges []Range) ([]span, error) {
	whole := []span{{0, Groups(size)}}
	if len(ranges) == 0 {
		return whole, nil
	}
	out := make([]span, 0, len(ranges))
	for _, r := range ranges {
		if r.Start < 0 || r.End < -1 || r.End >= 0 && r.End < r.Start {
			return nil, status.Errorf(status.BadRange, "b3: [%d, %d] is not a range: want 0 ≤ start ≤ end, or end −1", r.Start, r.End)
		}
		if r == (Range{0, -1}) {
			out = append(out, whole[0])
			continue
		}
		if r.End == -1 || r.End > size {
			r.End = size
		}
		if r.Start < r.End {
			out = append(out, span{r.Start / GroupSize, (r.End-1)/GroupSize + 1})
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	merged := out[:0]
	for _, s := range out {
		if n := len(merged); n > 0 && s.lo <= merged[n-1].hi {
			merged[n-1].hi = max(merged[n-1].hi, s.hi)
		} else {
			merged = append(merged, s)
		}
	}
	return merged, nil
}
