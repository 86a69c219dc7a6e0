package segment

import (
	"maps"
	"testing"

	"allium/store/disk/segment/codec"

	"allium/protocols/b3"
	"allium/store/meta"
)

func FuzzTotals(f *testing.F) {
	var some meta.Totals
	some.Add(meta.Entry{Size: b3.GroupSize + 1, Corrupt: true})
	f.Add(encodeTotals(&some, map[uint64]segmentUsage{1: {size: 1 << 20, live: 9}, 300: {tombstones: 56}}))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, p []byte) {
		var counted meta.Totals
		segs, err := decodeTotals(p, &counted)
		if err != nil {
			return
		}
		var again meta.Totals
		got, err := decodeTotals(encodeTotals(&counted, segs), &again)
		if err != nil || !maps.Equal(got, segs) || again.Bytes.Load() != counted.Bytes.Load() {
			t.Fatalf("% x is written otherwise: %v", p, err)
		}
	})
}

func TestSegmentName(t *testing.T) {
	t.Parallel()
	for _, num := range []uint64{1, 255, 1<<64 - 1} {
		if got, ok := codec.ParseFileName(codec.FileName(num)); !ok || got != num {
			t.Errorf("%d became %d, %t", num, got, ok)
		}
	}
	for _, name := range []string{
		"", ".seg", "1.seg", "0000000000000000.seg", "000000000000000G.seg", "00000000000000aB.seg",
		"0000000000000001.seg.tmp", "+000000000000001.seg",
	} {
		if _, ok := codec.ParseFileName(name); ok {
			t.Errorf("%q is a segment", name)
		}
	}
}
