package tables

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/store/meta"
)

func TestEntryCodec(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := meta.Entry{
			Root:    b3.Sum([]byte("x")),
			Size:    rapid.OneOf(rapid.Int64Range(0, b3.GroupSize+1), rapid.Int64Range(0, b3.MaxSize)).Draw(t, "size"),
			Corrupt: rapid.Bool().Draw(t, "corrupt"),
			Added:   meta.Second(rapid.Uint32().Draw(t, "added")),
		}
		want.Seg = rapid.Uint64().Draw(t, "seg")
		if meta.Small(want.Size) {
			want.Off = rapid.Int64Range(0, meta.MaxSegmentBytes).Draw(t, "off")
		}
		p := appendEntry(nil, want)
		if len(p) > maxEntrySize {
			t.Fatalf("%d bytes", len(p))
		}
		if got, err := decodeEntry(want.Root, p); err != nil || got != want {
			t.Fatalf("%+v became %+v, %v", want, got, err)
		}
	})
}

// FuzzEntry, FuzzPin, FuzzPosition, FuzzTotals, FuzzFormat: what a decoder takes, its
// encoder writes the same.
func FuzzEntry(f *testing.F) {
	f.Add(appendEntry(nil, meta.Entry{Size: 100, Seg: 1, Off: 4096}))
	f.Add(appendEntry(nil, meta.Entry{Size: 1 << 40, Corrupt: true}))
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
	p := meta.Pin{Root: b3.Sum(nil), Label: "site", Recursive: true, Created: time.Unix(1<<31, 0)}
	f.Add(pinKey(p.Root, p.Label), pinValue(p, 7))
	f.Add(pinKey(p.Root, p.Label), append([]byte{formOldPin, 1}, make([]byte, 8)...))
	f.Add([]byte{keyPin}, []byte{formPin, 0})
	p.Target = meta.Target{Copies: 3, Seq: 1 << 40}
	f.Add(pinKey(p.Root, p.Label), pinValue(p, 7))
	p = p.Release(1 << 41)
	f.Add(pinKey(p.Root, p.Label), pinValue(p, 7))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		p, err := decodePin(key, value)
		if err == nil && value[0] == formOldPin {
			value = append(slices.Clone(value), 0) // no segment
			value[0] = formPin
		}
		if err == nil && (!bytes.Equal(pinKey(p.Root, p.Label), key) || !bytes.Equal(pinValue(p.Pin, p.seg), value)) {
			t.Fatalf("% x = % x is written otherwise", key, value)
		}
	})
}

func FuzzWatermark(f *testing.F) {
	f.Add(encodeWatermark(Position{1, 32}, 7))
	f.Add(bytes.Repeat([]byte{0xff}, 16))
	f.Fuzz(func(t *testing.T, p []byte) {
		at, batch, err := DecodeWatermark(p)
		if err == nil && (at.Off < 0 || !bytes.Equal(encodeWatermark(at, batch)[:len(p)], p)) {
			t.Fatalf("% x is %+v", p, at)
		}
	})
}

func FuzzSegments(f *testing.F) {
	f.Add(EncodeSegments(map[uint64]int64{1: 64, 2: 0, 900: 1 << 20}))
	f.Add([]byte{0, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		ends, err := DecodeSegments(p)
		if err == nil && len(p) < b3.GroupSize-4 && !bytes.Equal(EncodeSegments(ends), p) {
			t.Fatalf("% x is %v", p, ends)
		}
	})
}
