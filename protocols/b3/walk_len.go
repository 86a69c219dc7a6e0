package b3

import "allium/protocols/status"

// WalkLen returns the total length in bytes of the parents and groups of a walk
// over ranges of an object of size bytes. Its cost grows with the depth of the
// tree and the number of ranges, not with the groups. Errors are those of
// [NewWalk].
func WalkLen(size int64, ranges []Range) (int64, error) {
	if !validSize(size) {
		return 0, status.Errorf(status.Upstream, "no object has %d bytes", size)
	}
	merged, err := spans(size, ranges)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, s := range merged {
		total += min(s.hi*GroupSize, size) - s.lo*GroupSize
	}
	return total + ParentSize*parentsAbove(0, Groups(size), merged), nil
}

// parentsAbove counts the parents in the subtree over groups [lo, hi) that cover
// a group of wanted. wanted must be sorted.
func parentsAbove(lo, hi int64, wanted []span) int64 {
	for len(wanted) > 0 && wanted[0].hi <= lo {
		wanted = wanted[1:]
	}
	switch {
	case hi-lo == 1, len(wanted) == 0, wanted[0].lo >= hi:
		return 0
	case wanted[0].lo <= lo && wanted[0].hi >= hi:
		return hi - lo - 1
	}
	mid := split(lo, hi)
	return 1 + parentsAbove(lo, mid, wanted) + parentsAbove(mid, hi, wanted)
}
