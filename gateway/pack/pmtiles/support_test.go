package pmtiles_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// source is a pack in memory. It counts what is read.
type source struct {
	p           []byte
	reads, read atomic.Int64 // calls and bytes
	outside     atomic.Int64 // calls beyond the end
	before      func(ctx context.Context, off int64) error
}

func (s *source) Size() int64 { return int64(len(s.p)) }

func (s *source) ReadAt(ctx context.Context, p []byte, off int64) error {
	s.reads.Add(1)
	s.read.Add(int64(len(p)))
	if s.before != nil {
		if err := s.before(ctx, off); err != nil {
			return err
		}
	}
	if off < 0 || off+int64(len(p)) > int64(len(s.p)) {
		s.outside.Add(1)
		return status.Errorf(status.Corrupt, "%d bytes at %d are outside of the file", len(p), off)
	}
	copy(p, s.p[off:])
	return nil
}

// budget is the size of a cache in which all fits.
const budget = 64 << 20

// open opens an archive in memory, with a cache of its own.
func open(t testing.TB, p []byte) (*pmtiles.Archive, *source) {
	t.Helper()
	src := &source{p: p}
	a, err := pmtiles.Open(t.Context(), src, pmtiles.NewCache(budget))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := src.outside.Load(); n != 0 {
			t.Errorf("%d reads outside of the file", n)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, src
}

// read returns the bytes of a tile.
func read(ctx context.Context, a tile.Archive, c tile.Coord) ([]byte, error) {
	at, err := a.Find(ctx, c)
	if err != nil {
		return nil, err
	}
	return a.Read(ctx, nil, at)
}

// differs returns the first difference between an archive and its tiles: all coordinates of the zooms
// up to max are asked for.
func differs(ctx context.Context, a tile.Archive, tiles packtest.Tiles, max uint8) error {
	for c := range packtest.Pyramid(0, max, nil, func(tile.Coord) []byte { return nil }) {
		got, err := read(ctx, a, c)
		want, ok := tiles[c]
		switch {
		case ok && (err != nil || !bytes.Equal(got, want)):
			return fmt.Errorf("tile %s is %q, %w, want %q", c, got, err, want)
		case !ok && status.Of(err) != status.NotFound:
			return fmt.Errorf("tile %s is %q, %w, and there is none", c, got, err)
		}
	}
	return nil
}

// checkers accepts every other tile of a zoom above 3.
func checkers(c tile.Coord) bool { return c.Z < 4 || (c.X+c.Y)%2 == 0 }

// gzipped is Named with gzip.
func gzipped(c tile.Coord) []byte { return packtest.Gzip(packtest.Named(tile.MVT, 0)(c)) }

// archive is an archive with all its tiles, for a table.
type archive struct {
	name  string
	tiles packtest.Tiles
	max   uint8
	o     packtest.Options
}

// archives returns one archive of each kind.
func archives() []archive {
	small := packtest.Pyramid(0, 5, nil, packtest.Named(tile.PNG, 0))
	sea := packtest.Pyramid(0, 5, checkers, packtest.Sea(tile.WebP))
	return []archive{
		{"one tile", packtest.Pyramid(0, 0, nil, packtest.Named(tile.JPEG, 0)), 0, packtest.Options{Type: tile.JPEG}},
		{"root only", small, 5, packtest.Options{Type: tile.PNG}},
		{"root only, gzip", small, 5, packtest.Options{Type: tile.PNG, Gzip: true}},
		{"leaves", small, 5, packtest.Options{Type: tile.PNG, Leaf: 100}},
		{"leaves, gzip", small, 5, packtest.Options{Type: tile.PNG, Leaf: 100, Gzip: true}},
		{"two levels", small, 5, packtest.Options{Type: tile.PNG, Leaf: 20, Levels: 2, Gzip: true}},
		{"three levels", small, 5, packtest.Options{Type: tile.PNG, Leaf: 8, Levels: 3}},
		{"leaves of one", sea, 5, packtest.Options{Type: tile.WebP, Leaf: 1}},
		{"runs", sea, 5, packtest.Options{Type: tile.WebP}},
		{"runs, leaves", sea, 5, packtest.Options{Type: tile.WebP, Leaf: 64, Gzip: true}},
		{"duplicates", sea, 5, packtest.Options{Type: tile.WebP, Leaf: 64, Duplicates: true}},
		{"unclustered", sea, 5, packtest.Options{Type: tile.WebP, Leaf: 64, Unclustered: true}},
		{"gzip tiles", packtest.Pyramid(2, 4, nil, gzipped), 4,
			packtest.Options{Type: tile.MVT, Encoding: tile.Gzip, Gzip: true}},
		{"avif", packtest.Pyramid(3, 5, nil, packtest.Named(tile.AVIF, 0)), 5, packtest.Options{Type: tile.AVIF}},
	}
}
