package mbtiles

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// TestFixture: each row of a pack of tippecanoe comes out at its coordinate, and others are missing.
func TestFixture(t *testing.T) {
	const path = "testdata/world_cities.mbtiles"
	pack, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, pack)
	info := a.Info()
	if info.Format != "mbtiles" || info.Type != tile.MVT || info.Encoding != tile.Gzip || info.MinZoom != 0 ||
		info.MaxZoom != 6 || info.Name != "Major cities from Natural Earth data" || info.Bounds == nil ||
		info.Bounds[0] != -123.123590 || info.Center == nil || info.Center[2] != 6 || len(info.Warnings) != 0 ||
		!strings.Contains(string(info.VectorLayers), `"cities"`) {
		t.Errorf("%+v", info)
	}
	if n, err := a.Sample(t.Context()); err != nil || n < 7 {
		t.Errorf("%d, %v", n, err)
	}
	if n, _, err := a.Count(t.Context()); err != nil || n != 196 {
		t.Errorf("%d, %v", n, err)
	}
	rows := 0
	db, err := sqlite.OpenConn("file:"+path+"?immutable=1", sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = sqlitex.Execute(db, "SELECT * FROM tiles", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		rows++
		z := uint8(row.ColumnInt64(0))
		c := tile.Coord{Z: z, X: uint32(row.ColumnInt64(1)), Y: uint32(1<<z - 1 - row.ColumnInt64(2))}
		want := make([]byte, row.ColumnLen(3))
		row.ColumnBytes(3, want)
		got, err := get(a, c)
		if err == nil && !bytes.Equal(got, want) {
			err = errors.New("other bytes")
		}
		return err
	}})
	if err != nil || rows != 196 {
		t.Errorf("%d rows: %v", rows, err)
	}
	for _, c := range []tile.Coord{{Z: 6, X: 63, Y: 63}, {Z: 7}, {Z: 0, X: 1}, {Z: 32}, {Z: 255, X: 1 << 31}} {
		if _, err := get(a, c); status.Of(err) != status.NotFound {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// TestNumbers: the number of a tile and its coordinate are each other's inverse, down to zoom 31.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.Uint8Range(0, tile.MaxZoom).Draw(t, "z")
		most := uint32(1<<z - 1)
		c := tile.Coord{Z: z, X: rapid.Uint32Range(0, most).Draw(t, "x"), Y: rapid.Uint32Range(0, most).Draw(t, "y")}
		if got, ok := coordOf(number(c)); !ok || got != c || number(c) < 0 {
			t.Errorf("%s has number %d, which is %s", c, number(c), got)
		}
	})
	if c, ok := coordOf(-1); ok {
		t.Errorf("-1 is %s", c)
	}
	if c, ok := coordOf(1<<63 - 1); ok {
		t.Errorf("the largest number is %s", c)
	}
}

// TestLayouts: tables and views of known tools, with and without rowids, in other orders and cases.
func TestLayouts(t *testing.T) {
	deduplicated := `CREATE TABLE metadata (name text, value text);
CREATE TABLE map (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_id TEXT, grid_id TEXT);
CREATE TABLE images (tile_data blob, tile_id text);
CREATE UNIQUE INDEX map_index ON map (zoom_level, tile_column, tile_row);
CREATE UNIQUE INDEX images_id ON images (tile_id);
CREATE VIEW tiles AS SELECT map.zoom_level AS zoom_level, map.tile_column AS tile_column,
	map.tile_row AS tile_row, images.tile_data AS tile_data FROM map JOIN images ON images.tile_id = map.tile_id;
CREATE VIEW grids AS SELECT * FROM map;
INSERT INTO map VALUES (1, 0, 1, 'a', NULL), (1, 1, 1, 'a', NULL);
INSERT INTO images VALUES (x'89504e470d0a1a0a', 'a');
`
	row := "INSERT INTO tiles VALUES (1, 0, 1, x'89504e470d0a1a0a'), (1, 1, 1, x'89504e470d0a1a0a');"
	for name, script := range map[string]string{
		"table":        tables + row,
		"deduplicated": deduplicated,
		"shallow": strings.NewReplacer("map_index", "shallow_index", "map", "tiles_shallow", "images", "tiles_data").
			Replace(deduplicated),
		"no rowid": `CREATE TABLE metadata (name, value); CREATE TABLE tiles (zoom_level integer, tile_column integer,
tile_row integer, tile_data blob, PRIMARY KEY (zoom_level, tile_column, tile_row)) WITHOUT ROWID;` + row,
		"cases":    strings.ReplaceAll(tables, "tiles (", "TILES (") + row,
		"utf-16":   "PRAGMA encoding = 'UTF-16le';" + tables + row,
		"64 KiB":   "PRAGMA page_size = 65536;" + tables + row,
		"512":      "PRAGMA page_size = 512;" + tables + row,
		"WAL":      tables + row,
		"triggers": tables + row + "CREATE TRIGGER x AFTER INSERT ON tiles BEGIN DELETE FROM tiles; END;",
		"other views": tables + row + "CREATE VIEW x AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL " +
			"SELECT n+1 FROM r) SELECT n FROM r;",
	} {
		t.Run(name, func(t *testing.T) {
			pack := build(t, script)
			if name == "WAL" {
				pack[18], pack[19] = 2, 2
			}
			a := open(t, pack)
			if i := a.Info(); i.Type != tile.PNG || i.MinZoom != 1 || i.MaxZoom != 1 || !a.looked {
				t.Errorf("%+v", i)
			}
			for _, c := range []tile.Coord{{Z: 1}, {Z: 1, X: 1}} {
				if got, err := get(a, c); err != nil || string(got) != "\x89PNG\r\n\x1a\n" {
					t.Errorf("%s: %q, %v", c, got, err)
				}
			}
			if _, err := get(a, tile.Coord{Z: 1, Y: 1}); status.Of(err) != status.NotFound {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTiles: what is not a tile is missing or corrupt, and never served.
func TestTiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pack")
	buildFile(t, path, tables+onePNG+`INSERT INTO tiles VALUES (1, 0, 1, NULL), (1, 1, 1, x''), (1, 0, 0, 'text'),
(1, 1, 0, 17), (2, 0, 0, zeroblob(16777216)), (2, 0, 1, zeroblob(16777217)), (2, 0, 2, zeroblob(20000000)),
(2, 0, 3, CAST(zeroblob(2000) AS TEXT));`, nil)
	pack, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, pack)
	for c, want := range map[tile.Coord]status.Outcome{
		{Z: 0}: status.OK, {Z: 1}: status.NotFound, {Z: 1, X: 1}: status.NotFound, {Z: 1, Y: 1}: status.Corrupt,
		{Z: 1, X: 1, Y: 1}: status.Corrupt, {Z: 2, Y: 3}: status.OK, {Z: 2, Y: 2}: status.BodyCap,
		{Z: 2, Y: 1}: status.BodyCap, {Z: 2, Y: 0}: status.Corrupt,
	} {
		p, err := a.Find(t.Context(), c)
		if err != nil || p.Offset != number(c) {
			t.Errorf("find %s: %+v, %v", c, p, err)
		}
		heapPeak(true)
		before := heapPeak(false)
		_, err = a.Read(t.Context(), nil, p)
		if status.Of(err) != want {
			t.Errorf("read %s: %v, want %s", c, err, want)
		}
		if more := heapPeak(false) - before; more > tile.MaxBytes+1<<20 {
			t.Errorf("%s took %d bytes", c, more)
		}
	}
	if _, err := a.Read(t.Context(), nil, tile.Place{Offset: -5}); status.Of(err) != status.NotFound {
		t.Errorf("got %v", err)
	}
	got, err := a.Read(t.Context(), []byte("before"), tile.Place{})
	if err != nil || string(got) != "before"+png1 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRefused: what is no pack is refused in words.
func TestRefused(t *testing.T) {
	good := build(t, tables+onePNG)
	change := func(at int, to ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], to)
		return b
	}
	for name, tt := range map[string]struct {
		pack []byte
		want status.Outcome
		says string
	}{
		"empty":         {nil, status.Corrupt, "empty"},
		"short":         {good[:99], status.Corrupt, "no SQLite database"},
		"other":         {bytes.Repeat([]byte("PMTiles\x03"), 100), status.Corrupt, "no SQLite database"},
		"encrypted":     {bytes.Repeat([]byte{0x9b, 0x35, 0xc1}, 4096), status.Corrupt, "encrypted"},
		"page of 513":   {change(16, 2, 1), status.Corrupt, "a page has 513 bytes"},
		"page of 0":     {change(16, 0, 0), status.Corrupt, "a page has 0 bytes"},
		"wrong page":    {change(16, 2, 0), status.Corrupt, ""},
		"version":       {change(18, 9, 9), status.Corrupt, ""},
		"schema format": {change(44, 0, 0, 0, 99), status.Corrupt, ""},
		"damaged root":  {change(100, 0xff, 0xff, 0xff, 0xff, 0xff), status.Corrupt, "malformed"},
		"no tables":     {build(t, "CREATE TABLE a (b)"), status.Corrupt, `no table or view "tiles"`},
		"no metadata": {build(t, "CREATE TABLE tiles (zoom_level, tile_column, tile_row, tile_data)"), status.Corrupt,
			`"metadata"`},
		"other columns": {build(t, "CREATE TABLE tiles (a); CREATE TABLE metadata (name, value)"), status.Corrupt,
			"no such column"},
		"no tiles":     {build(t, tables), status.Corrupt, "has no tiles"},
		"NULL alone":   {build(t, tables+"INSERT INTO tiles VALUES (0, 0, 0, NULL)"), status.Corrupt, "has no tiles"},
		"text first":   {build(t, tables+"INSERT INTO tiles VALUES (0, 0, 0, 'abc')"), status.Corrupt, "of a blob"},
		"unknown type": {build(t, tables+"INSERT INTO tiles VALUES (0, 0, 0, x'00')"), status.Unsupported, "no type"},
		"text zooms": {build(t, strings.ReplaceAll(tables, "integer", "text")+onePNG), status.Corrupt,
			"must be an integer of 0 to 31"},
		"zoom 32":  {build(t, tables+strings.ReplaceAll(onePNG, "(0,", "(32,")), status.Corrupt, "is 32,"},
		"zoom -1":  {build(t, tables+strings.ReplaceAll(onePNG, "(0,", "(-1,")), status.Corrupt, "of the pack is -1,"},
		"zoom 0.5": {build(t, tables+strings.ReplaceAll(onePNG, "(0,", "(0.5,")), status.Corrupt, "is 0.5"},
		"no index": {build(t, "CREATE TABLE metadata (name, value);"+
			"CREATE TABLE tiles (tile_data, zoom_level, tile_column, tile_row);"+
			"INSERT INTO tiles SELECT zeroblob(300000), 5, value, 3 FROM json_each('["+
			strings.Repeat("7,", 120)+"7]'); UPDATE tiles SET tile_data = x'89504e470d0a1a0a' WHERE rowid = 1"),
			status.Unsupported, "it takes too many reads. Write the pack again with an index"},
	} {
		t.Run(name, func(t *testing.T) {
			src := &memory{bytes: tt.pack}
			pool := testPool(t, 1)
			_, err := Open(t.Context(), src, pool)
			t.Logf("%d KiB read: %v", src.read.Load()>>10, err)
			if status.Of(err) != tt.want || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v (%s)", err, status.Of(err))
			}
			if pool.open != 0 {
				t.Errorf("%d connections stayed open", pool.open)
			}
		})
	}
}

// TestCutOff: a pack that is cut off anywhere is corrupt.
func TestCutOff(t *testing.T) {
	good, err := os.ReadFile("testdata/world_cities.mbtiles")
	if err != nil {
		t.Fatal(err)
	}
	pool := testPool(t, 1)
	for n := 0; n < len(good); n += 509 {
		if _, err := Open(t.Context(), &memory{bytes: good[:n]}, pool); status.Of(err) != status.Corrupt {
			t.Errorf("%d bytes: %v", n, err)
		}
		unmarked := slices.Clone(good[:n]) // as an old version of SQLite writes it, without the number of pages
		if n >= headerSize {
			unmarked[92]++
		}
		a, err := Open(t.Context(), &memory{bytes: unmarked}, pool)
		if err != nil {
			if o := status.Of(err); o != status.Corrupt {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSourceFails: the failure of the source keeps its outcome.
func TestSourceFails(t *testing.T) {
	pack := build(t, tables+onePNG)
	src := &memory{bytes: pack, fail: status.Errorf(status.BadDigest, "the group is damaged")}
	if _, err := Open(t.Context(), src, testPool(t, 1)); status.Of(err) != status.BadDigest {
		t.Errorf("got %v", err)
	}
	src.fail = nil
	a, err := Open(t.Context(), src, testPool(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Read(ctx, nil, tile.Place{}); status.Of(err) != status.Canceled {
		t.Errorf("got %v", err)
	}
	if _, err := get(a, tile.Coord{}); err != nil {
		t.Errorf("after a canceled query: %v", err)
	}
}
