package store

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
)

func TestEntryCodec(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := entry{
			root:    b3.Sum([]byte("x")),
			size:    rapid.OneOf(rapid.Int64Range(0, b3.GroupSize+1), rapid.Int64Range(0, b3.MaxSize)).Draw(t, "size"),
			corrupt: rapid.Bool().Draw(t, "corrupt"),
			added:   second(rapid.Uint32().Draw(t, "added")),
		}
		want.seg = rapid.Uint64().Draw(t, "seg")
		if small(want.size) {
			want.off = rapid.Int64Range(0, maxSegmentBytes).Draw(t, "off")
		}
		p := appendEntry(nil, want)
		if len(p) > maxEntrySize {
			t.Fatalf("%d bytes", len(p))
		}
		if got, err := decodeEntry(want.root, p); err != nil || got != want {
			t.Fatalf("%+v became %+v, %v", want, got, err)
		}
	})
}

// FuzzEntry, FuzzPin, FuzzPosition, FuzzTotals, FuzzFormat: what a decoder takes, its
// encoder writes the same.
func FuzzEntry(f *testing.F) {
	f.Add(appendEntry(nil, entry{size: 100, seg: 1, off: 4096}))
	f.Add(appendEntry(nil, entry{size: 1 << 40, corrupt: true}))
	f.Add([]byte{formRecord, 0, 1, 0x80, 0, 1, 1})
	f.Add([]byte{formOldRecord, 0, 100, 1, 32})
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := decodeEntry(b3.Root{}, p)
		if err != nil {
			return
		}
		want := p
		if p[0] == formOldRecord || p[0] == formOldFile { // comes back as its successor, added 0
			want = slices.Insert(slices.Clone(p), 2, 0)
			want[0] += formRecord - formOldRecord
			if p[0] == formOldFile {
				want = append(want, 0) // no segment
			}
		}
		if got := appendEntry(nil, e); !bytes.Equal(got, want) {
			t.Fatalf("% x is written % x", p, got)
		}
	})
}

func FuzzPin(f *testing.F) {
	p := Pin{Root: b3.Sum(nil), Label: "site", Recursive: true, Created: time.Unix(1<<31, 0)}
	f.Add(pinKey(p.Root, p.Label), pinValue(p, 7))
	f.Add(pinKey(p.Root, p.Label), append([]byte{formOldPin, 1}, make([]byte, 8)...))
	f.Add([]byte{keyPin}, []byte{formPin, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		p, seg, err := decodePin(key, value)
		if err == nil && value[0] == formOldPin {
			value = append(slices.Clone(value), 0) // no segment
			value[0] = formPin
		}
		if err == nil && (!bytes.Equal(pinKey(p.Root, p.Label), key) || !bytes.Equal(pinValue(p, seg), value)) {
			t.Fatalf("% x = % x is written otherwise", key, value)
		}
	})
}

func FuzzPosition(f *testing.F) {
	f.Add(encodePosition(position{1, 32}))
	f.Add(bytes.Repeat([]byte{0xff}, 16))
	f.Fuzz(func(t *testing.T, p []byte) {
		at, err := decodePosition(p)
		if err == nil && (at.off < 0 || !bytes.Equal(encodePosition(at), p)) {
			t.Fatalf("% x is %+v", p, at)
		}
	})
}

func FuzzTotals(f *testing.F) {
	var some totals
	some.add(entry{size: b3.GroupSize + 1, corrupt: true})
	f.Add(encodeTotals(&some, map[uint64]segmentUse{1: {size: 1 << 20, live: 9}, 300: {tombs: 56}}))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, p []byte) {
		var counted totals
		segs, err := decodeTotals(p, &counted)
		if err != nil {
			return
		}
		var again totals
		got, err := decodeTotals(encodeTotals(&counted, segs), &again)
		if err != nil || !maps.Equal(got, segs) || again.bytes.Load() != counted.bytes.Load() {
			t.Fatalf("% x is written otherwise: %v", p, err)
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add(formatText(1))
	f.Add([]byte("allium store\nformat 01\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := parseFormat(p)
		if err == nil && (v < 1 || !bytes.Equal(formatText(v), p)) {
			t.Fatalf("%q is version %d", p, v)
		}
	})
}

func TestSegmentName(t *testing.T) {
	t.Parallel()
	for _, num := range []uint64{1, 255, 1<<64 - 1} {
		if got, ok := parseSegmentName(segmentName(num)); !ok || got != num {
			t.Errorf("%d became %d, %t", num, got, ok)
		}
	}
	for _, name := range []string{"", ".seg", "1.seg", "0000000000000000.seg", "000000000000000G.seg", "00000000000000aB.seg", "0000000000000001.seg.tmp", "+000000000000001.seg"} {
		if _, ok := parseSegmentName(name); ok {
			t.Errorf("%q is a segment", name)
		}
	}
}

func TestNextRoot(t *testing.T) {
	t.Parallel()
	r := b3.Root{31: 0xff}
	if got, ok := next(r); !ok || got != (b3.Root{30: 1}) {
		t.Errorf("%v, %t", got, ok)
	}
	for i := range r {
		r[i] = 0xff
	}
	if _, ok := next(r); ok {
		t.Error("there is one after the last")
	}
}

func TestBitmap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b bitmap
		want := map[int64]bool{}
		for _, i := range rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, 1<<46))).Draw(t, "numbers") {
			if b.add(i) == want[i] {
				t.Fatalf("%d: add does not say whether it is new", i)
			}
			want[i] = true
			if !b.has(i) || b.has(i+1) != want[i+1] {
				t.Fatalf("%d is not in", i)
			}
		}
		if b.count() != int64(len(want)) || len(b.pages) > len(want) {
			t.Fatalf("%d numbers on %d pages, want %d", b.count(), len(b.pages), len(want))
		}
	})
}
