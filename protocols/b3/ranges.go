package b3

import (
	"cmp"
	"slices"

	"allium/protocols/status"
)

// Range selects the bytes [Start, End) of an object, as OAP1 §9 writes it. End −1
// means the end of the object. A range with Start == End selects nothing.
type Range struct{ Start, End int64 }

// span is the range of groups [lo, hi).
type span struct{ lo, hi int64 }

// spans widens ranges to whole groups of an object of size bytes, then sorts and
// merges them. It cuts off bytes past the end of the object. No ranges, or
// [0, −1], select the whole object: of the empty object its one group.
func spans(size int64, ranges []Range) ([]span, error) {
	whole := []span{{0, Groups(size)}}
	if len(ranges) == 0 {
		return whole, nil
	}
	out := make([]span, 0, len(ranges))
	for _, r := range ranges {
		if r.Start < 0 || r.End < -1 || r.End >= 0 && r.End < r.Start {
			return nil, status.Errorf(status.BadRange, "[%d, %d] is not a range: want 0 ≤ start ≤ end, or end −1",
				r.Start, r.End)
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
