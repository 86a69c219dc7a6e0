package pmtiles

import (
	"testing"

	"pgregory.net/rapid"

	"allium/gateway/pack/tile"
)

// TestID compares with known IDs.
func TestID(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		c  tile.Coord
		id uint64
	}{
		{tile.Coord{}, 0},
		{tile.Coord{Z: 1}, 1},
		{tile.Coord{Z: 1, X: 0, Y: 1}, 2},
		{tile.Coord{Z: 1, X: 1, Y: 1}, 3},
		{tile.Coord{Z: 1, X: 1, Y: 0}, 4},
		{tile.Coord{Z: 2}, 5},
		{tile.Coord{Z: 12, X: 3423, Y: 1763}, 19078479},
		{tile.Coord{Z: 31, X: 1<<31 - 1}, MaxID},
	} {
		if id := ID(test.c); id != test.id {
			t.Errorf("the ID of %s is %d, want %d", test.c, id, test.id)
		}
		if c := CoordOf(test.id); c != test.c {
			t.Errorf("%d is %s, want %s", test.id, c, test.c)
		}
	}
}

// TestIDProperties: each ID is that of its own coordinate, and tiles with consecutive IDs of one zoom
// are neighbors.
func TestIDProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := uint8(rapid.IntRange(0, tile.MaxZoom).Draw(t, "zoom"))
		id := rapid.Uint64Range(firstID(z), firstID(z)+(1<<(2*z)-1)).Draw(t, "id")
		c := CoordOf(id)
		if c.Z != z || !c.Valid() || ID(c) != id {
			t.Fatalf("%d is %s, whose ID is %d", id, c, ID(c))
		}
		if id == firstID(z) {
			return
		}
		p := CoordOf(id - 1)
		if dx, dy := int64(c.X)-int64(p.X), int64(c.Y)-int64(p.Y); dx*dx+dy*dy != 1 {
			t.Fatalf("%s follows %s", c, p)
		}
	})
}
