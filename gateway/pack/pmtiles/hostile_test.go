package pmtiles_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

type (
	entry  = packtest.Entry
	header = packtest.Header
)

const (
	corrupt     = status.Corrupt
	unsupported = status.Unsupported
)

// typed reports whether reading a bad archive may end with err.
func typed(err error) bool {
	switch status.Of(err) {
	case status.OK, status.NotFound, status.Corrupt, status.Unsupported, status.DecompressCap, status.BodyCap:
		return true
	}
	return false
}

// built returns an archive of directories that a test wrote. size is that of the section of tiles.
func built(root, leaves []byte, size int, change func(*header)) []byte {
	h := header{Magic: [8]byte([]byte("PMTiles\x03")), Internal: packtest.CompressionNone,
		Compression: packtest.CompressionNone, Type: uint8(tile.PNG)}
	return packtest.Join(h, root, []byte("{}"), leaves, bytes.Repeat(packtest.Content(tile.PNG, ""), size/8), change)
}

// directory returns the bytes of a directory.
func directory(entries ...entry) []byte { return packtest.Directory(entries) }

// numbers returns varints.
func numbers(x ...uint64) (p []byte) {
	for _, n := range x {
		p = binary.AppendUvarint(p, n)
	}
	return p
}

// maxAllocated bounds all that Open allocates, and so what it holds at a time: a directory of the most entries, or a
// JSON text of the most bytes whose buffer grows and is copied.
const maxAllocated = 6 << 20

// TestRefused: a bad archive is one typed refusal, after at most 1 MiB of reads and in bounded memory.
func TestRefused(t *testing.T) {
	one := entry{ID: 0, Run: 1, Length: 8}
	change := func(f func(*header)) []byte { return built(directory(one), nil, 8, f) }
	gzipped := func(root, metadata []byte) []byte {
		h := header{Magic: [8]byte([]byte("PMTiles\x03")), Internal: packtest.CompressionGzip,
			Compression: packtest.CompressionNone, Type: uint8(tile.PNG)}
		return packtest.Join(h, root, metadata, nil, packtest.Content(tile.PNG, ""), nil)
	}
	metadata := func(json string) []byte {
		return packtest.PMTiles(packtest.Tiles{{}: packtest.Content(tile.PNG, "")},
			packtest.Options{Type: tile.PNG, Metadata: json})
	}
	leaf := func(entries ...entry) []byte {
		p := directory(entries...)
		return built(directory(entry{ID: 5, Length: uint64(len(p))}, entry{ID: 9, Run: 1, Length: 8}),
			p, 64, nil)
	}
	zip := packtest.Gzip(directory(one))
	many := packtest.Gzip(append(numbers(pmtiles.MaxEntries+1), make([]byte, 4<<20)...))
	spaces := packtest.Gzip(bytes.Repeat([]byte(" "), 8<<20))
	zeros := packtest.Gzip(make([]byte, 8<<20))
	for _, test := range []struct {
		name string
		p    []byte
		want status.Outcome
		word string
	}{
		{"empty", nil, corrupt, "no PMTiles"},
		{"text", []byte(strings.Repeat("<html>", 1000)), corrupt, "no PMTiles"},
		{"version 1", append([]byte("PM\x01\x00"), make([]byte, 512)...), corrupt, "no PMTiles"},
		{"version 2", append([]byte("PM\x02\x00"), make([]byte, 512)...), unsupported, "version 2"},
		{"version 4", change(func(h *header) { h.Magic[7] = 4 }), unsupported, "version 4"},
		{"header only", change(nil)[:127], corrupt, "cut or damaged"},
		{"no root", change(func(h *header) { h.Root.Length = 0 }), corrupt, "no root"},
		{"root in the header", change(func(h *header) { h.Root.Offset = 10 }), corrupt, "root directory"},
		{"root beyond the end", change(func(h *header) { h.Root.Offset = 1 << 40 }), corrupt, "root"},
		{"root that overflows", change(func(h *header) {
			h.Root = packtest.Section{Offset: math.MaxUint64, Length: 2}
		}), corrupt, "root directory"},
		{"metadata of 1 GiB", change(func(h *header) { h.Metadata.Length = 1 << 30 }), corrupt, "metadata"},
		{"leaves that overflow", change(func(h *header) { h.Leaves.Length = math.MaxUint64 - 126 }), corrupt,
			"leaf directories"},
		{"tiles beyond the end", change(func(h *header) { h.Tiles.Length++ }), corrupt, "tiles lie"},
		{"unknown compression", change(func(h *header) { h.Internal = 0 }), unsupported, "an unknown"},
		{"brotli", change(func(h *header) { h.Internal = packtest.CompressionBrotli }), unsupported, "brotli"},
		{"zstd", change(func(h *header) { h.Internal = packtest.CompressionZstd }), unsupported, "zstd"},
		{"compression 9", change(func(h *header) { h.Internal = 9 }), unsupported, "an unknown"},
		{"tiles of compression 5", change(func(h *header) { h.Compression = 5 }), unsupported, "tiles"},
		{"type 6", change(func(h *header) { h.Type = 6 }), unsupported, "type 6"},
		{"none that is gzip", built(zip, nil, 8, nil), corrupt, "directory"},
		{"gzip that is none", gzipped(directory(one), nil), corrupt, "directory"},
		{"cut gzip", gzipped(zip[:len(zip)-1], nil), corrupt, "directory"},
		{"a wrong checksum", gzipped(append(zip[:len(zip)-8:len(zip)-8], 1, 2, 3, 4, 5, 6, 7, 8), nil), corrupt,
			"directory"},
		{"a directory of zeros", gzipped(zeros, nil), corrupt, "empty"},
		{"a bomb behind the entries", gzipped(append(packtest.Gzip(directory(one)), zeros...), nil), corrupt,
			"follow"},

		{"no entries", built(numbers(0), nil, 8, nil), corrupt, "empty"},
		{"2^63 entries", built(numbers(1<<63, 0), nil, 8, nil), corrupt, "claims"},
		{"2^63 entries in gzip", gzipped(packtest.Gzip(numbers(1<<63, 0)), nil), corrupt, "claims"},
		{"too many entries", built(append(numbers(pmtiles.MaxEntries+1), make([]byte, 510<<10)...), nil, 8, nil),
			corrupt, "claims"},
		{"too many entries in gzip", gzipped(many, nil), status.BodyCap, "entries"},
		{"a number of 70 bits", built(bytes.Repeat([]byte{0xff}, 100), nil, 8, nil), corrupt, "64 bits"},
		{"cut numbers", built([]byte{3, 0, 1, 1, 1}, nil, 8, nil), corrupt, "claims"},
		{"cut offsets", built([]byte{1, 0, 1, 0x80, 0x80}, nil, 8, nil), corrupt, "cut"},
		{"no first offset", built([]byte{1, 0, 1, 8, 0}, nil, 8, nil), corrupt, "no offset"},
		{"more bytes", built(append(directory(one), 0), nil, 8, nil), corrupt, "follow"},
		{"the same tile twice", built(directory(one, one), nil, 8, nil), corrupt, "overlap"},
		{"a run over the next", built(directory(entry{Run: 3, Length: 8}, entry{ID: 2, Run: 1, Length: 8}),
			nil, 8, nil), corrupt, "overlap"},
		{"a run over everything", built(directory(entry{Run: math.MaxUint64, Length: 8}), nil, 8, nil), corrupt,
			"length"},
		{"a run beyond zoom 31", built(directory(entry{ID: pmtiles.MaxID, Run: 2, Length: 8}), nil, 8, nil),
			corrupt, "zoom 31"},
		{"a tile beyond zoom 31", built(directory(entry{ID: pmtiles.MaxID + 1, Run: 1, Length: 8}), nil, 8, nil),
			corrupt, "zoom 31"},
		{"IDs that overflow", built(numbers(2, 1<<62, math.MaxUint64, 1, 1, 8, 8, 1, 1), nil, 8, nil), corrupt, "zoom 31"},
		{"a tile outside", built(directory(entry{Run: 1, Length: 9}), nil, 8, nil), corrupt, "outside"},
		{"an offset that overflows", built(directory(entry{Run: 1, Length: 8, Offset: math.MaxUint64 - 1}), nil, 8, nil),
			corrupt, "outside"},
		{"a length of 2^40", built(directory(entry{Run: 1, Length: 1 << 40}), nil, 8, nil), corrupt, "length"},
		{"a leaf outside", built(directory(entry{Length: 9}), directory(one), 8, nil), corrupt, "outside"},
		{"a leaf of no bytes", built(directory(entry{}), directory(one), 8, nil), corrupt, "directory"},
		{"a large leaf", built(directory(entry{Length: 600 << 10}), make([]byte, 600<<10), 8, nil), status.BodyCap,
			"directory"},
		{"a leaf before its entry", leaf(entry{ID: 4, Run: 1, Length: 8}), corrupt, "belong"},
		{"a leaf over the next entry", leaf(entry{ID: 5, Run: 5, Length: 8}), corrupt, "belong"},
		{"a loop", built(directory(entry{Length: 5}), directory(entry{Length: 5}), 8, nil),
			corrupt, "deep"},
		{"four levels", packtest.PMTiles(packtest.Pyramid(0, 3, nil, packtest.Named(tile.PNG, 0)),
			packtest.Options{Type: tile.PNG, Leaf: 3, Levels: 4}), corrupt, "deep"},

		{"metadata that is no JSON", metadata("nothing"), corrupt, "metadata"},
		{"metadata of spaces", metadata("   "), corrupt, "metadata"},
		{"a list", metadata("[]"), corrupt, "no JSON object"},
		{"a text", metadata(`"name"`), corrupt, "no JSON object"},
		{"cut JSON", metadata(`{"name":"x`), corrupt, "metadata"},
		{"two objects", metadata(`{}{}`), corrupt, "follows"},
		{"deep JSON", metadata(strings.Repeat(`{"a":`, tile.MaxNesting+1)), status.BodyCap, "nested"},
		{"a bomb of JSON", gzipped(zip, packtest.Gzip([]byte(`{"a":[`+strings.Repeat(`{"a":{"a":[]}},`, 1<<18)))),
			status.DecompressCap, "more than"},
		{"bad JSON below a long name", metadata(`{"` + strings.Repeat("x", 1<<18) + `":{"a":}}`), corrupt, "no JSON"},
		{"many members", metadata("{" + strings.Repeat(`"a":1,`, 1025)), status.BodyCap, "members"},
		{"metadata that is too large", metadata(`{"a":"` + strings.Repeat("x", 2<<20) + `"}`), status.DecompressCap,
			"more than"},
		{"a bomb of zeros", gzipped(zip, zeros), corrupt, "metadata"},
		{"a bomb of spaces", gzipped(zip, spaces), status.DecompressCap, "more than"},
		{"a bomb of text", gzipped(zip, packtest.Gzip([]byte(`{"name":"`+strings.Repeat("x", 8<<20)))), status.DecompressCap,
			"more than"},
		{"a bomb of layers", gzipped(zip, packtest.Gzip([]byte(`{"vector_layers":[`+strings.Repeat("1,", 4<<20)))),
			status.DecompressCap, "more than"},
	} {
		src := &source{p: test.p}
		c := pmtiles.NewCache(1 << 20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := pmtiles.Open(t.Context(), src, c)
		runtime.ReadMemStats(&after)
		if status.Of(err) != test.want || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%s: %v, want %s with %q", test.name, err, test.want, test.word)
		}
		if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", test.name, len(err.Error()))
		}
		if n := src.read.Load(); n > pmtiles.MaxOpen || src.outside.Load() > 0 {
			t.Errorf("%s: %d bytes were read, %d reads outside", test.name, n, src.outside.Load())
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > maxAllocated {
			t.Errorf("%s: %d bytes were allocated", test.name, n)
		}
		if c.Used() != 0 {
			t.Errorf("%s: %d bytes stay in the cache", test.name, c.Used())
		}
	}
}

// TestLateDamage: a bad leaf in the middle is found by those who need it, and by Count.
func TestLateDamage(t *testing.T) {
	t.Parallel()
	good := directory(entry{ID: 0, Run: 1, Length: 8})
	for name, bad := range map[string][]byte{
		"damaged":          {0xff, 0xff, 0xff, 0xff, 0xff},
		"of another entry": good,
		"a loop":           directory(entry{ID: 2, Length: 5, Offset: 5}),
	} {
		last := directory(entry{ID: 4, Run: 1, Length: 8})
		root := directory(entry{ID: 0, Length: 5}, entry{ID: 2, Length: 5, Offset: 5},
			entry{ID: 4, Length: 5, Offset: 10})
		a, src := open(t, built(root, bytes.Join([][]byte{good, bad, last}, nil), 64, nil))
		for id := range uint64(5) {
			want := map[uint64]status.Outcome{1: status.NotFound, 2: status.Corrupt, 3: status.Corrupt}[id]
			if _, err := read(t.Context(), a, pmtiles.CoordOf(id)); status.Of(err) != want {
				t.Errorf("%s: tile %d: %v", name, id, err)
			}
		}
		if _, err := a.Count(t.Context()); status.Of(err) != status.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
		if src.read.Load() > 1<<20 {
			t.Errorf("%s: %d bytes were read", name, src.read.Load())
		}
	}
}

// TestSharedLeaf: an archive whose many entries have one leaf does not keep Count busy.
func TestSharedLeaf(t *testing.T) {
	t.Parallel()
	var entries []entry
	for i := range uint64(1000) {
		entries = append(entries, entry{ID: 100 + i, Length: 6})
	}
	p := directory(entry{ID: 100, Run: 1, Length: 8})
	entries[999] = entry{ID: 2000, Run: 1, Length: 8}
	for i := range entries[:999] {
		entries[i].Length = uint64(len(p))
	}
	a, src := open(t, built(directory(entries...), p, 64, nil))
	src.reads.Store(0)
	if _, err := a.Count(t.Context()); status.Of(err) != status.Corrupt || src.reads.Load() > 3 {
		t.Errorf("%d reads, %v", src.reads.Load(), err)
	}
}

// TestOverlappingLeaves: two leaves that share a byte, and each by itself can be read.
func TestOverlappingLeaves(t *testing.T) {
	t.Parallel()
	one, other := []byte{1, 100, 1, 8, 1}, []byte{1, 101, 1, 8, 1}
	root := directory(entry{ID: 100, Length: 5}, entry{ID: 101, Length: 5, Offset: 4}, entry{ID: 102, Run: 1, Length: 8})
	a, _ := open(t, built(root, append(one[:4:4], other...), 64, nil))
	for id := uint64(100); id < 103; id++ {
		if _, err := a.Find(t.Context(), pmtiles.CoordOf(id)); err != nil {
			t.Error(err)
		}
	}
	if c, err := a.Count(t.Context()); status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestCut: each beginning of an archive is refused, or answers as the whole does, or says what is wrong.
func TestCut(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 1, nil, packtest.Named(tile.PNG, 0))
	for _, o := range []packtest.Options{
		{Type: tile.PNG, Leaf: 2}, {Type: tile.PNG, Leaf: 2, Gzip: true}, {Type: tile.PNG, Gzip: true},
	} {
		p := packtest.PMTiles(tiles, o)
		for n := range p {
			src := &source{p: p[:n]}
			if a, err := pmtiles.Open(t.Context(), src, pmtiles.NewCache(budget)); status.Of(err) != status.Corrupt {
				t.Errorf("%d bytes of %d: %v, %v", n, len(p), a, err)
			}
			// The sections of a copy end where the file ends.
			cut := slices.Clone(p[:n])
			if n < 127 {
				continue
			}
			for at := 8; at < 72; at += 16 {
				offset := binary.LittleEndian.Uint64(cut[at:])
				length := binary.LittleEndian.Uint64(cut[at+8:])
				offset = min(offset, uint64(n))
				binary.LittleEndian.PutUint64(cut[at:], offset)
				binary.LittleEndian.PutUint64(cut[at+8:], min(length, uint64(n)-offset))
			}
			src = &source{p: cut}
			a, err := pmtiles.Open(t.Context(), src, pmtiles.NewCache(budget))
			if err == nil {
				for c, want := range tiles {
					got, err := read(t.Context(), a, c)
					if err == nil && !bytes.Equal(got, want) {
						t.Errorf("%d bytes: tile %s is %q", n, c, got)
					}
					if !typed(err) {
						t.Errorf("%d bytes: tile %s: %v", n, c, err)
					}
				}
				_, err = a.Sample(t.Context())
			}
			if !typed(err) || src.outside.Load() > 0 {
				t.Errorf("%d bytes: %v, %d reads outside", n, err, src.outside.Load())
			}
		}
	}
}

// FuzzArchive opens any bytes and reads from them. It holds the bound on the bytes that are read and
// allocated.
func FuzzArchive(f *testing.F) {
	tiles := packtest.Pyramid(0, 2, nil, packtest.Named(tile.PNG, 0))
	for _, o := range []packtest.Options{
		{Type: tile.PNG}, {Type: tile.PNG, Leaf: 5}, {Type: tile.PNG, Leaf: 3, Levels: 2}, {Gzip: true, Leaf: 5},
		{Type: tile.PNG, Metadata: `{"name":"x","vector_layers":[{"id":"a"}]}`},
	} {
		f.Add(packtest.PMTiles(tiles, o), uint64(7))
	}
	f.Add(built(directory(entry{Length: 5}), directory(entry{Length: 5}), 8, nil), uint64(0))
	f.Fuzz(func(t *testing.T, p []byte, id uint64) {
		src := &source{p: p}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a, err := pmtiles.Open(t.Context(), src, pmtiles.NewCache(1<<20))
		runtime.ReadMemStats(&after)
		if !typed(err) {
			t.Fatalf("%v (%s)", err, status.Of(err))
		}
		if src.read.Load() > pmtiles.MaxOpen || after.TotalAlloc-before.TotalAlloc > maxAllocated {
			t.Fatalf("%d bytes were read, and %d allocated", src.read.Load(), after.TotalAlloc-before.TotalAlloc)
		}
		if err != nil {
			return
		}
		defer a.Close()
		c := pmtiles.CoordOf(id % (pmtiles.MaxID + 1))
		src.reads.Store(0)
		got, err := read(t.Context(), a, c)
		if !typed(err) || src.reads.Load() > pmtiles.MaxDepth+2 || len(got) > len(p) {
			t.Fatalf("tile %s: %d bytes after %d reads, %v", c, len(got), src.reads.Load(), err)
		}
		_, sampled := a.Sample(t.Context())
		counts, counted := a.Count(t.Context())
		if !typed(sampled) || !typed(counted) || counts.Tiles < 0 || src.outside.Load() > 0 {
			t.Fatalf("%v, %+v, %v, %d reads outside", sampled, counts, counted, src.outside.Load())
		}
	})
}
