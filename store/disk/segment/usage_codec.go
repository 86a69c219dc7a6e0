package segment

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"allium/store/meta"
)

// encodeTotals encodes what an orderly close saves for the next open: the counters of
// objects, and for each segment its number, size, live bytes, tombstones and end. All are
// uvarints.
func encodeTotals(t *meta.Totals, segs map[uint64]segmentUsage) []byte {
	var b []byte
	for _, n := range t.Counters() {
		b = binary.AppendUvarint(b, uint64(n.Load()))
	}
	for _, num := range slices.Sorted(maps.Keys(segs)) {
		u := segs[num]
		for _, n := range []uint64{num, uint64(u.size), uint64(u.live), uint64(u.tombstones), uint64(u.end)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// decodeTotals reverses encodeTotals. It stores the counters in t.
func decodeTotals(b []byte, t *meta.Totals) (segs map[uint64]segmentUsage, err error) {
	bad := fmt.Errorf("decode the counters: % x", meta.Excerpt(b))
	rest, n := b, uint64(0)
	for _, c := range t.Counters() {
		if !meta.Uvarint(&rest, &n) {
			return nil, bad
		}
		c.Store(int64(n))
	}
	segs = map[uint64]segmentUsage{}
	for len(rest) > 0 {
		var v [5]uint64
		for i := range v {
			if !meta.Uvarint(&rest, &v[i]) || i > 0 && v[i] > meta.MaxSegmentBytes {
				return nil, bad
			}
		}
		segs[v[0]] = segmentUsage{size: int64(v[1]), live: int64(v[2]), tombstones: int64(v[3]), end: int64(v[4])}
	}
	return segs, nil
}
