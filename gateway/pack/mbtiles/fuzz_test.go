package mbtiles

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"
	"time"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// FuzzDamage overwrites bytes of small packs. Whatever they become, each answer is a tile or an outcome
// that is no fault of the program, and SQLite takes little memory.
func FuzzDamage(f *testing.F) {
	fixture, err := os.ReadFile("testdata/world_cities.mbtiles")
	if err != nil {
		f.Fatal(err)
	}
	row := "INSERT INTO tiles VALUES (1, 0, 1, x'89504e470d0a1a0a'), (1, 1, 1, zeroblob(9000));" + onePNG
	packs := [][]byte{
		fixture,
		build(f, "PRAGMA page_size = 512;"+tables+row),
		build(f, "PRAGMA page_size = 512;"+view("SELECT "+columns+" FROM t WHERE z >= 0")),
	}
	f.Add(uint8(0), []byte{0, 0, 100, 13, 0, 0, 105, 255})
	f.Add(uint8(1), []byte{0, 2, 8, 0xff, 0, 4, 3, 0x80})
	f.Add(uint8(2), []byte{0, 0, 60, 1, 0, 0, 28, 0})
	pool := testPool(f, 1)
	mount, one := mountTime, tileBudget.time
	f.Cleanup(func() { mountTime, tileBudget.time = mount, one })
	mountTime, tileBudget.time = 200*time.Millisecond, 200*time.Millisecond
	f.Fuzz(func(t *testing.T, which uint8, damage []byte) {
		pack := slices.Clone(packs[int(which)%len(packs)])
		for ; len(damage) >= 4 && len(damage) < 400; damage = damage[4:] {
			at := binary.BigEndian.Uint32(damage) >> 8
			pack[int(at)%len(pack)] = damage[3]
		}
		heapPeak(true)
		a, err := Open(t.Context(), &memory{bytes: pack}, pool)
		allowed(t, err)
		if err != nil {
			if pool.open != 0 {
				t.Errorf("%d connections are open after %v", pool.open, err)
			}
			return
		}
		_, err = a.Sample(t.Context())
		allowed(t, err)
		for _, c := range []tile.Coord{{}, {Z: 1}, {Z: 1, X: 1}, {Z: 6, X: 33, Y: 22}} {
			b, err := get(a, c)
			allowed(t, err)
			if err == nil && (len(b) == 0 || len(b) > tile.MaxBytes) {
				t.Errorf("tile %s has %d bytes", c, len(b))
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if peak := heapPeak(false); peak > 40<<20 {
			t.Errorf("SQLite took %d bytes", peak)
		}
	})
}

// allowed fails the test for an error that is no refusal of a damaged pack.
func allowed(t *testing.T, err error) {
	t.Helper()
	switch status.Of(err) {
	case status.OK, status.Corrupt, status.Unsupported, status.NotFound, status.Timeout, status.Busy:
	default:
		t.Errorf("%s: %v", status.Of(err), err)
	}
}
