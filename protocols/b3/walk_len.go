package b3

import "allium/protocols/status"

// WalkLen is how many bytes the items of a walk over ranges of an object of size
// bytes have, parents and groups. It does not walk: it takes a few steps for
// each level of the tree.
func WalkLen(size int64, ranges []Range) (int64, error) {
	if !validSize(size) {
		return 0, status.Errorf(status.Upstream, "b3: no object has %d bytes", size)
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

// parentsAbove counts the parents of the subtree over groups [lo, hi) that have
// a group of wanted, which is sorted, below them.
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
