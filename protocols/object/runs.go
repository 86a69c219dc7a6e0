package object

import "allium/protocols/b3"

// maxRuns is the maximum number of ranges in the answer to a put. Groups that a receiver has beyond them are sent
// again.
const maxRuns = 1000

// storedRuns returns which bytes of an object dst has, as ranges in ascending order, at most
// maxRuns of them. Each begins and ends with a group.
func storedRuns(dst Ingest, size int64) (have []b3.Range) {
	groups := b3.Groups(size)
	for at := int64(0); at < groups && len(have) < maxRuns; {
		lo, hi := dst.Missing(at, groups)
		if lo == hi { // nothing is missing
			lo, hi = groups, groups
		}
		if lo > at {
			have = append(have, b3.Range{Start: at * b3.GroupSize, End: min(lo*b3.GroupSize, size)})
		}
		at = hi
	}
	return have
}

// missingRuns returns the bytes of the items that follow the size proof of a put: what have
// lacks, without the last group, which is part of the proof. It is never empty, because no
// ranges would be the whole object.
func missingRuns(have []b3.Range, size int64) (missing []b3.Range) {
	end := (b3.Groups(size) - 1) * b3.GroupSize
	at := int64(0)
	for _, h := range have {
		if at < min(h.Start, end) {
			missing = append(missing, b3.Range{Start: at, End: min(h.Start, end)})
		}
		at = h.End
	}
	if at < end || missing == nil {
		missing = append(missing, b3.Range{Start: min(at, end), End: end})
	}
	return missing
}

// runsOf checks the ranges in a peer's answer to a put and returns them.
func runsOf(have [][2]int64, size int64) ([]b3.Range, error) {
	if len(have) > maxRuns {
		return nil, violation("%d ranges, at most %d", len(have), maxRuns)
	}
	runs := make([]b3.Range, len(have))
	at := int64(0)
	for i, h := range have {
		if h[0] < at || h[1] <= h[0] || h[1] > size || h[0]%b3.GroupSize != 0 ||
			h[1]%b3.GroupSize != 0 && h[1] != size {
			return nil, violation("[%d, %d] is no range of groups of %d bytes after %d", h[0], h[1], size, at)
		}
		runs[i] = b3.Range{Start: h[0], End: h[1]}
		at = h[1]
	}
	return runs, nil
}

// pairs returns ranges as they are on the wire.
func pairs(runs []b3.Range) [][2]int64 {
	p := make([][2]int64, len(runs))
	for i, r := range runs {
		p[i] = [2]int64{r.Start, r.End}
	}
	return p
}
