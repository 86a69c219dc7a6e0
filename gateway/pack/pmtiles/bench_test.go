package pmtiles_test

import (
	"strings"
	"testing"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
)

// benchmarked returns an archive of 21,845 tiles in leaves of 4,096 entries, whose contents are few and
// of 20 KiB, and a tile in the middle.
func benchmarked() ([]byte, tile.Coord) {
	tiles := packtest.Pyramid(0, 7, nil, func(c tile.Coord) []byte {
		return packtest.Named(tile.MVT, 20<<10)(tile.Coord{X: c.X % 8, Y: c.Y % 8})
	})
	o := packtest.Options{Type: tile.MVT, Leaf: 4096, Gzip: true}
	return packtest.PMTiles(tiles, o), tile.Coord{Z: 7, X: 70, Y: 40}
}

func BenchmarkFind(b *testing.B) {
	p, c := benchmarked()
	for name, budget := range map[string]int64{"warm": budget, "cold": 0} {
		b.Run(name, func(b *testing.B) {
			a, err := pmtiles.Open(b.Context(), &source{p: p}, pmtiles.NewCache(budget))
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Find(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFindParallel(b *testing.B) {
	p, c := benchmarked()
	a, _ := open(b, p)
	ctx := b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := a.Find(ctx, c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRead finds and reads a tile of 20 KiB in memory.
func BenchmarkRead(b *testing.B) {
	p, c := benchmarked()
	a, _ := open(b, p)
	var buf []byte
	b.SetBytes(20 << 10)
	b.ReportAllocs()
	for b.Loop() {
		at, err := a.Find(b.Context(), c)
		if err == nil {
			buf, err = a.Read(b.Context(), buf[:0], at)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	p, _ := benchmarked()
	c := pmtiles.NewCache(budget)
	b.ReportAllocs()
	for b.Loop() {
		a, err := pmtiles.Open(b.Context(), &source{p: p}, c)
		if err != nil {
			b.Fatal(err)
		}
		a.Close()
	}
}

// BenchmarkRefuse opens the archives that take longest to refuse.
func BenchmarkRefuse(b *testing.B) {
	png := packtest.Tiles{{}: packtest.Content(tile.PNG, "")}
	long := make([]byte, 4<<20)
	for i := range long {
		long[i] = ' '
	}
	entries := make([]packtest.Entry, pmtiles.MaxEntries)
	for i := range entries {
		entries[i] = packtest.Entry{ID: uint64(i), Run: 1, Length: 8}
	}
	entries[len(entries)-1].Length++
	gzip := func(h *header) { h.Internal = packtest.CompressionGzip }
	for name, p := range map[string][]byte{
		"metadata": packtest.PMTiles(png, packtest.Options{Gzip: true, Metadata: `{"name":"` + string(long) + `"}`}),
		"nested": packtest.PMTiles(png, packtest.Options{Gzip: true,
			Metadata: `{"a":[` + strings.Repeat(`1,`, 2_000_000)}),
		"spaces":  packtest.PMTiles(png, packtest.Options{Gzip: true, Metadata: string(long) + " "}),
		"entries": built(packtest.Gzip(packtest.Directory(entries)), nil, 8, gzip),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pmtiles.Open(b.Context(), &source{p: p}, pmtiles.NewCache(budget)); err == nil {
					b.Fatal("it was opened")
				}
			}
		})
	}
}

// BenchmarkRefused opens the bad archives that take the longest: their text and their directory are as large as they
// may be.
func BenchmarkRefused(b *testing.B) {
	one := packtest.Directory([]packtest.Entry{{Run: 1, Length: 8}})
	h := packtest.Header{Magic: [8]byte([]byte("PMTiles\x03")), Internal: packtest.CompressionGzip,
		Compression: packtest.CompressionNone, Type: uint8(tile.PNG)}
	for name, text := range map[string]string{
		"nested": `{"a":[` + strings.Repeat(`{"a":{"a":[]}},`, 1<<18), "text": `{"name":"` + strings.Repeat("x", 4<<20),
		"layers": `{"vector_layers":[` + strings.Repeat("1,", 2<<20),
	} {
		p := packtest.Join(h, packtest.Gzip(one), packtest.Gzip([]byte(text)), nil, packtest.Content(tile.PNG, ""), nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pmtiles.Open(b.Context(), &source{p: p}, pmtiles.NewCache(1<<20)); err == nil {
					b.Fatal("it was opened")
				}
			}
		})
	}
}
