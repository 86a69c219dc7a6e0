package segment

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"allium/store/meta"
)

// encodeTotals writes what an orderly close leaves for the next open: the
// counters of objects, and number, size, live bytes, tombstones and end of each
// segment.
func encodeTotals(t *meta.Totals, segs map[uint64]figures) []byte {
	var b []byte
	for _, n := range t.Counters() {
		b = binary.AppendUvarint(b, uint64(n.Load()))
	}
	for _, num := range slices.Sorted(maps.Keys(segs)) {
		u := segs[num]
		for _, n := range []uint64{num, uint64(u.size), uint64(u.live), uint64(u.tombs), uint64(u.end)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// decodeTotals is the inverse of encodeTotals.
func decodeTotals(b []byte, t *meta.Totals) (segs map[uint64]figures, err error) {
	bad := fmt.Errorf("the counters are malformed: % x", meta.Clip(b))
	rest, n := b, uint64(0)
	for _, c := range t.Counters() {
		if !meta.Uvarint(&rest, &n) {
			return nil, bad
		}
		c.Store(int64(n))
	}
	segs = map[uint64]figures{}
	for len(rest) > 0 {
		var v [5]uint64
		for i := range v {
			if !meta.Uvarint(&rest, &v[i]) || i > 0 && v[i] > meta.MaxSegmentBytes {
				return nil, bad
			}
		}
		segs[v[0]] = figures{size: int64(v[1]), live: int64(v[2]), tombs: int64(v[3]), end: int64(v[4])}
	}
	return segs, nil
}
