package pmtiles_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// TestTiles: all tiles that were put in come out, and no others.
func TestTiles(t *testing.T) {
	t.Parallel()
	for _, test := range archives() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, _ := open(t, packtest.PMTiles(test.tiles, test.o))
			if err := differs(t.Context(), a, test.tiles, test.max+1); err != nil {
				t.Error(err)
			}
			info := a.Info()
			if info.MaxZoom != test.max || info.Type != test.o.Type || info.Encoding != test.o.Encoding ||
				info.Tiles != int64(len(test.tiles)) || len(info.Warnings) > 0 {
				t.Errorf("%+v", info)
			}
			contents := map[string]bool{}
			for _, p := range test.tiles {
				contents[string(p)] = true
			}
			counts, err := a.Count(t.Context())
			if want := len(contents); err != nil || counts.Tiles != info.Tiles || counts.Contents != info.Contents ||
				!test.o.Duplicates && counts.Contents != int64(want) {
				t.Errorf("counted %+v, %v, the header has %d and %d, and %d were written", counts, err, info.Tiles,
					info.Contents, want)
			}
			if n, err := a.Sample(t.Context()); err != nil || n == 0 {
				t.Errorf("sampled %d tiles, %v", n, err)
			}
		})
	}
}

// TestLarge: an archive of more than 100,000 entries.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine reads 350,000 tiles")
	}
	t.Parallel()
	tiles := packtest.Pyramid(0, 9, checkers, packtest.Named(tile.PNG, 0))
	a, _ := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 4096, Gzip: true}))
	if err := differs(t.Context(), a, tiles, 9); err != nil {
		t.Error(err)
	}
	n := 0
	last := uint64(0)
	if err := a.Walk(t.Context(), func(r pmtiles.Run) error {
		if n++; r.Tiles != 1 || n > 1 && r.First <= last {
			t.Fatalf("%+v follows %d", r, last)
		}
		last = r.First
		return nil
	}); err != nil || n != len(tiles) || n < 100_000 {
		t.Errorf("walked %d entries of %d: %v", n, len(tiles), err)
	}
}

// TestFixtures reads what other programs have written.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file  string
		info  tile.Info
		tiles map[tile.Coord]int
	}{
		{"test_fixture_1.pmtiles", tile.Info{Type: tile.MVT, Encoding: tile.Gzip,
			Texts: tile.Texts{Name: "test_fixture_1.pmtiles"}},
			map[tile.Coord]int{{}: 69}},
		{"unclustered.pmtiles", tile.Info{Type: tile.PNG, MinZoom: 1, MaxZoom: 1},
			map[tile.Coord]int{{Z: 1}: 70, {Z: 1, Y: 1}: 70}},
	} {
		p, err := os.ReadFile(filepath.Join("testdata", test.file))
		if err != nil {
			t.Fatal(err)
		}
		a, _ := open(t, p)
		info := a.Info()
		if info.Type != test.info.Type || info.Encoding != test.info.Encoding || info.MinZoom != test.info.MinZoom ||
			info.MaxZoom != test.info.MaxZoom || info.Name != test.info.Name || len(info.Warnings) > 0 {
			t.Errorf("%s: %+v", test.file, info)
		}
		for c, n := range test.tiles {
			if got, err := read(t.Context(), a, c); err != nil || len(got) != n {
				t.Errorf("%s: tile %s has %d bytes, %v", test.file, c, len(got), err)
			}
		}
		if n, err := a.Sample(t.Context()); err != nil || n != len(test.tiles) {
			t.Errorf("%s: sampled %d tiles, %v", test.file, n, err)
		}
		if c, err := a.Count(t.Context()); err != nil || c.Tiles != int64(len(test.tiles)) {
			t.Errorf("%s: counted %+v, %v", test.file, c, err)
		}
	}
}

// TestZooms: a run of equal tiles across zooms, for which other writers declare max zoom 0.
func TestZooms(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 8, nil, func(tile.Coord) []byte { return packtest.Content(tile.PNG, "sea") })
	for _, leaf := range []int{0, 1} {
		a, _ := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: leaf,
			Change: func(h *packtest.Header) { h.Zooms = [2]uint8{0, 0} }}))
		info := a.Info()
		if info.MinZoom != 0 || info.MaxZoom != 8 || info.Tiles != 87381 || info.Contents != 1 ||
			len(info.Warnings) != 1 || !strings.Contains(info.Warnings[0], "zooms 0 to 0") {
			t.Errorf("%+v", info)
		}
		if err := differs(t.Context(), a, tiles, 8); err != nil {
			t.Error(err)
		}
	}
}

// TestReads counts the reads of the source.
func TestReads(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 6, nil, packtest.Named(tile.PNG, 1000))
	p := packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 128, Gzip: true})
	a, src := open(t, p)
	if n := src.reads.Load(); n > 3 { // the beginning, and what of the leaves is not in it
		t.Errorf("Open read %d times", n)
	}
	c := tile.Coord{Z: 6, X: 20, Y: 30}
	for i, most := range []int64{1, 0, 0} { // a leaf, and then none
		src.reads.Store(0)
		at, err := a.Find(t.Context(), c)
		if err != nil || src.reads.Load() > most {
			t.Fatalf("Find %d read %d times, %v", i, src.reads.Load(), err)
		}
		src.reads.Store(0)
		got, err := a.Read(t.Context(), []byte("before"), at)
		if err != nil || src.reads.Load() != 1 || string(got) != "before"+string(tiles[c]) {
			t.Errorf("Read read %d times, %v", src.reads.Load(), err)
		}
	}
	for _, c := range []tile.Coord{{Z: 7}, {Z: 6, X: 64}, {Z: 6, Y: 1 << 31}, {Z: 32}, {Z: 255}} {
		src.reads.Store(0)
		if _, err := a.Find(t.Context(), c); status.Of(err) != status.NotFound || src.reads.Load() != 0 {
			t.Errorf("tile %s: %v after %d reads", c, err, src.reads.Load())
		}
	}
	for _, at := range []tile.Place{{}, {Offset: -1}, {Offset: int64(len(p)), Length: 1},
		{Offset: 1 << 62, Length: 1 << 62}, {Offset: int64(len(p)) - 1, Length: -1}} {
		if _, err := a.Read(t.Context(), nil, at); status.Of(err) != status.BadRequest {
			t.Errorf("place %+v: %v", at, err)
		}
	}
}

// TestAllocations: a warm Find and Read allocate nothing.
func TestAllocations(t *testing.T) {
	tiles := packtest.Pyramid(0, 6, nil, packtest.Named(tile.PNG, 1000))
	a, _ := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 128, Gzip: true}))
	ctx, buf := t.Context(), make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(100, func() {
		at, err := a.Find(ctx, tile.Coord{Z: 6, X: 20, Y: 30})
		if err == nil {
			_, err = a.Read(ctx, buf, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}

// TestUnknownType: the type and the encoding are found by looking at a tile.
func TestUnknownType(t *testing.T) {
	t.Parallel()
	unknown := func(h *packtest.Header) { h.Type, h.Compression = 0, packtest.CompressionUnknown }
	for _, test := range []struct {
		content  func(tile.Coord) []byte
		kind     tile.Type
		encoding tile.Encoding
	}{
		{packtest.Named(tile.PNG, 0), tile.PNG, tile.Identity},
		{packtest.Named(tile.MVT, 0), tile.MVT, tile.Identity},
		{gzipped, tile.MVT, tile.Gzip},
		{func(c tile.Coord) []byte { return packtest.Gzip(packtest.Named(tile.AVIF, 1<<16)(c)) }, tile.AVIF, tile.Gzip},
	} {
		a, _ := open(t, packtest.PMTiles(packtest.Pyramid(1, 2, nil, test.content), packtest.Options{Change: unknown}))
		if a.Info().Type != test.kind || a.Info().Encoding != test.encoding || len(a.Info().Warnings) != 1 {
			t.Errorf("%+v, want %s", a.Info(), test.kind.Ext())
		}
	}
	text := string(packtest.Gzip([]byte("text")))
	for _, content := range []string{"<html>", "", "\x1f\x8b", "\x28\xb5\x2f\xfd\x00", text} {
		tiles := packtest.Tiles{{}: []byte(content)}
		_, err := pmtiles.Open(t.Context(), &source{p: packtest.PMTiles(tiles, packtest.Options{Change: unknown})},
			pmtiles.NewCache(budget))
		if status.Of(err) != status.Unsupported {
			t.Errorf("tiles %q: %v", content, err)
		}
	}
}

// TestMetadata takes what is useful and warns of the rest.
func TestMetadata(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		json     string
		want     tile.Info
		warnings int
	}{
		{json: `{"name":"N","description":"D","attribution":"<b>A</b>","version":"1.2","other":{"name":"no"}}`,
			want: tile.Info{Texts: tile.Texts{Name: "N", Description: "D", Attribution: "<b>A</b>", Version: "1.2"}}},
		{json: `{"name":1,"attribution":["x"],"version":3,"description":null}`,
			want: tile.Info{Texts: tile.Texts{Version: "3"}}, warnings: 2},
		{json: " {\"vector_layers\": [ {\"id\": \"a\xff\"} ] } \n",
			want: tile.Info{VectorLayers: []byte("[{\"id\":\"a\uFFFD\"}]")}},
		{json: `{"vector_layers": {"id": "a"}}`, warnings: 1},
		{json: `{"vector_layers": null}`},
		{json: `{"name":1,"name":2,"vector_layers":0,"name":3,"vector_layers":1}`, warnings: 2},
		{json: `{"name":"N","description":"` + strings.Repeat("x", 9000) + `"}`,
			want: tile.Info{Texts: tile.Texts{Name: "N"}}, warnings: 1},
		{json: `{"name":"first","name":"last"}`, want: tile.Info{Texts: tile.Texts{Name: "last"}}},
		{json: "{\"name\":\"\xff\"}", want: tile.Info{Texts: tile.Texts{Name: "\uFFFD"}}},
	} {
		for _, gzip := range []bool{false, true} {
			a, _ := open(t, packtest.PMTiles(packtest.Tiles{{}: packtest.Content(tile.PNG, "")},
				packtest.Options{Type: tile.PNG, Gzip: gzip, Metadata: test.json}))
			got := a.Info()
			if got.Name != test.want.Name || got.Description != test.want.Description ||
				got.Attribution != test.want.Attribution || got.Version != test.want.Version ||
				string(got.VectorLayers) != string(test.want.VectorLayers) || len(got.Warnings) != test.warnings {
				t.Errorf("%q: %+v", test.json, got)
			}
		}
	}
}

// TestArea takes bounds and center that are on the map.
func TestArea(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		area     packtest.Area
		bounds   *[4]float64
		center   *[3]float64
		warnings int
	}{
		{},
		{area: packtest.Area{West: -1800000000, South: -850000000, East: 1800000000, North: 850000000, CenterZoom: 9,
			CenterLon: 15000000, CenterLat: -5000000},
			bounds: &[4]float64{-180, -85, 180, 85}, center: &[3]float64{1.5, -0.5, 2}},
		{area: packtest.Area{West: 1, East: 0, North: 1, CenterZoom: 1}, center: &[3]float64{0, 0, 1}, warnings: 1},
		{area: packtest.Area{West: -2147483648, East: 2147483647, CenterLat: -900000001}, warnings: 2},
	} {
		a, _ := open(t, packtest.PMTiles(packtest.Pyramid(0, 2, nil, packtest.Named(tile.PNG, 0)), packtest.Options{
			Type: tile.PNG, Change: func(h *packtest.Header) { h.Area = test.area }}))
		got := a.Info()
		if (got.Bounds == nil) != (test.bounds == nil) || got.Bounds != nil && *got.Bounds != *test.bounds ||
			(got.Center == nil) != (test.center == nil) || got.Center != nil && *got.Center != *test.center ||
			len(got.Warnings) != test.warnings {
			t.Errorf("%+v gives %v, %v, %q", test.area, got.Bounds, got.Center, got.Warnings)
		}
	}
}

// TestWalkEnds with its context, and with the error of its function.
func TestWalkEnds(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 5, nil, packtest.Named(tile.PNG, 0))
	a, src := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 10}))
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	src.reads.Store(0)
	err := a.Walk(ctx, func(pmtiles.Run) error { n++; cancel(); return nil })
	if status.Of(err) != status.Canceled || n != 10 || src.reads.Load() != 2 {
		t.Errorf("%d entries, %d reads, %v", n, src.reads.Load(), err)
	}
	failure := status.Errorf(status.NoSpace, "full")
	if err := a.Walk(t.Context(), func(pmtiles.Run) error { return failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
}

// TestSampleFinds tiles that are not what the archive says.
func TestSampleFinds(t *testing.T) {
	t.Parallel()
	png, zip := packtest.Named(tile.PNG, 0), gzipped(tile.Coord{})
	for _, test := range []struct {
		name string
		bad  []byte
		o    packtest.Options
		want status.Outcome
	}{
		{"another type", packtest.Content(tile.JPEG, ""), packtest.Options{Type: tile.PNG}, status.Corrupt},
		{"text", []byte("<html>"), packtest.Options{Type: tile.MVT}, status.Corrupt},
		{"gzip that is not declared", zip, packtest.Options{Type: tile.MVT}, status.Corrupt},
		{"no gzip", packtest.Content(tile.MVT, ""), packtest.Options{Type: tile.MVT, Encoding: tile.Gzip}, status.Corrupt},
		{"cut gzip", zip[:len(zip)-9], packtest.Options{Type: tile.MVT, Encoding: tile.Gzip}, status.Corrupt},
		{"a wrong checksum", append(slices.Clone(zip[:len(zip)-8]), make([]byte, 8)...),
			packtest.Options{Type: tile.MVT, Encoding: tile.Gzip}, status.Corrupt},
		{"gzip twice", packtest.Gzip(zip), packtest.Options{Type: tile.MVT, Encoding: tile.Gzip}, status.Corrupt},
		{"a bomb", packtest.Gzip(append([]byte{0x1a}, make([]byte, tile.MaxBytes)...)),
			packtest.Options{Type: tile.MVT, Encoding: tile.Gzip}, status.DecompressCap},
		{"no zstd", zip, packtest.Options{Type: tile.MVT, Encoding: tile.Zstd}, status.Corrupt},
		{"too large", make([]byte, tile.MaxBytes+1), packtest.Options{Type: tile.PNG}, status.BodyCap},
		{"empty vector tile", packtest.Gzip(nil), packtest.Options{Type: tile.MVT, Encoding: tile.Gzip}, status.OK},
		{"brotli", []byte("any"), packtest.Options{Type: tile.MVT, Encoding: tile.Brotli}, status.OK},
		{"zstd", []byte("\x28\xb5\x2f\xfd"), packtest.Options{Type: tile.MVT, Encoding: tile.Zstd}, status.OK},
	} {
		for _, leaf := range []int{0, 3} {
			tiles := packtest.Tiles{{Z: 2, X: 3, Y: 0}: test.bad} // the last one
			if test.o.Encoding == tile.Identity && test.o.Type == tile.PNG {
				tiles = packtest.Pyramid(0, 2, nil, png)
				tiles[tile.Coord{Z: 2, X: 3, Y: 0}] = test.bad
			}
			o := test.o
			o.Leaf = leaf
			a, src := open(t, packtest.PMTiles(tiles, o))
			src.read.Store(0)
			_, err := a.Sample(t.Context())
			if status.Of(err) != test.want || src.read.Load() > 1<<20 {
				t.Errorf("%s: %v after %d bytes", test.name, err, src.read.Load())
			}
			_, err = a.Find(t.Context(), tile.Coord{Z: 2, X: 3, Y: 0})
			if tooLarge := len(test.bad) > tile.MaxBytes; tooLarge != (status.Of(err) == status.BodyCap) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}
