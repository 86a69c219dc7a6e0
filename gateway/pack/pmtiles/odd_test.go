package pmtiles_test

import (
	"context"
	"strings"
	"testing"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// TestSourceFails: an error of the source is passed on with its outcome, whichever read it is of.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 5, nil, gzipped)
	o := packtest.Options{Encoding: tile.Gzip, Leaf: 40, Levels: 2,
		Metadata: `{"a":"` + strings.Repeat("x", 40<<10) + `"}`,
		Change:   func(h *packtest.Header) { h.Type = 0 }}
	for _, o.Gzip = range []bool{false, true} {
		p := packtest.PMTiles(tiles, o)
		all, failed := int64(1), int64(0)
		for ; failed < all; failed++ {
			src := &source{p: p}
			src.before = func(context.Context, int64) error {
				if src.reads.Load() > failed {
					return status.Errorf(status.TransportDown, "gone")
				}
				return nil
			}
			c := pmtiles.NewCache(budget)
			a, err := pmtiles.Open(t.Context(), src, c)
			if err == nil {
				_, err = a.Sample(t.Context())
			}
			if err == nil {
				_, err = a.Count(t.Context())
			}
			if err == nil {
				_, err = read(t.Context(), a, tile.Coord{Z: 5, X: 9, Y: 9})
			}
			if status.Of(err) == status.OK {
				break
			}
			if status.Of(err) != status.TransportDown || src.reads.Load() != failed+1 {
				t.Fatalf("read %d failed, and %d were made: %v", failed+1, src.reads.Load(), err)
			}
			all = failed + 2
		}
		if failed < 30 {
			t.Errorf("only %d reads", failed)
		}
	}
}

// TestWarnings: what is odd and yet can be served is said.
func TestWarnings(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 4, nil, packtest.Named(tile.PNG, 0))
	for _, test := range []struct {
		word   string
		tiles  int64
		leaf   int
		change func(*packtest.Header)
	}{
		{"declares 7 tiles", 341, 0, func(h *packtest.Header) { h.Counts[0] = 7 }},
		{"cannot be right", 0, 50, func(h *packtest.Header) { h.Counts[0] = 1 << 63 }},
		{"cannot be right", 0, 50, func(h *packtest.Header) { h.Counts[2] = 342 }},
		{"no metadata", 341, 0, func(h *packtest.Header) { h.Metadata.Length = 0 }},
		{"zooms 3 to 9", 341, 50, func(h *packtest.Header) { h.Zooms = [2]uint8{3, 9} }},
	} {
		a, _ := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: test.leaf, Change: test.change}))
		info := a.Info()
		if len(info.Warnings) != 1 || !strings.Contains(info.Warnings[0], test.word) || info.Tiles != test.tiles {
			t.Errorf("%q: %d tiles, %q", test.word, info.Tiles, info.Warnings)
		}
		if err := differs(t.Context(), a, tiles, 4); err != nil {
			t.Errorf("%q: %v", test.word, err)
		}
	}
	large := packtest.Pyramid(0, 6, nil, packtest.Named(tile.PNG, 0))
	a, _ := open(t, packtest.PMTiles(large, packtest.Options{Type: tile.PNG}))
	if w := a.Info().Warnings; len(w) != 1 || !strings.Contains(w[0], "not in the first 16384 bytes") {
		t.Errorf("a large root: %q", w)
	}
}

// TestEmptyTile: a tile of no bytes is a missing one.
func TestEmptyTile(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(0, 1, nil, packtest.Named(tile.PNG, 0))
	c := tile.Coord{Z: 1, X: 1, Y: 1}
	tiles[c] = nil
	a, _ := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG}))
	if _, err := a.Find(t.Context(), c); status.Of(err) != status.NotFound {
		t.Error(err)
	}
	if n, err := a.Sample(t.Context()); n != 4 || err != nil {
		t.Errorf("sampled %d tiles, %v", n, err)
	}
}

// TestUncountable: an unclustered archive with more contents than Count tells apart.
func TestUncountable(t *testing.T) {
	t.Parallel()
	tiles := packtest.Pyramid(9, 9, func(c tile.Coord) bool { return c.X < 140 }, packtest.Named(tile.PNG, 0))
	a, _ := open(t, packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 4096, Unclustered: true}))
	if c, err := a.Count(t.Context()); err != nil || c.Tiles != int64(len(tiles)) || c.Contents != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
