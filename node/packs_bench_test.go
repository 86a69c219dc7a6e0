package node_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"allium/gateway/api"
	"allium/gateway/pack"
	"allium/gateway/pack/packtest"
	"allium/gateway/pack/tile"
	"allium/node/config"
)

// benchZoom is the only zoom of which BenchmarkTile asks for tiles, and benchTile their size in bytes.
const (
	benchZoom = 4
	benchTile = 20 << 10
)

// BenchmarkTile asks for random tiles of a PMTiles file and an MBTiles file, over a connection of each processor. A
// bare handler sends the same header and bytes.
func BenchmarkTile(b *testing.B) {
	dir := b.TempDir()
	tiles := packtest.Pyramid(0, benchZoom, nil, packtest.Named(tile.PNG, benchTile))
	if err := os.WriteFile(filepath.Join(dir, "a.pmtiles"),
		packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 64, Gzip: true}), 0o600); err != nil {
		b.Fatal(err)
	}
	cities, err := os.ReadFile("../gateway/pack/mbtiles/testdata/world_cities.mbtiles")
	if err != nil {
		b.Fatal(err)
	}
	write(b, filepath.Join(dir, "a.mbtiles"), cities)
	n := start(b, func(c *config.Config) {
		c.Gateway.Rate, c.Gateway.InflightPerIP = 0, 0
		c.Edge.Pack.Dir = dir
		c.Edge.Pack.Packs = map[string]pack.Mount{"file": {File: "a.pmtiles"}, "database": {File: "a.mbtiles"}}
	})
	// The node bounds SQLite before its first use in the process, which was the other pack.
	database := filepath.Join(b.TempDir(), "a.mbtiles")
	benchDatabase(b, database, tiles)
	if err := os.Rename(database, filepath.Join(dir, "a.mbtiles")); err != nil {
		b.Fatal(err)
	}
	if _, err := n.api.MountPack(b.Context(), api.MountRequest{Name: "database", File: "a.mbtiles"}, nil); err != nil {
		b.Fatal(err)
	}
	ours := n.ID().Gateway + "/edge/packs/"
	one := fetch(b, ours+"file/4/1/1.png")
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), one.header)
		_, _ = w.Write(one.body) // the benchmark has ended
	}))
	defer bare.Close()
	for _, from := range []struct{ name, url string }{
		{"file", ours + "file"}, {"database", ours + "database"}, {"bare", bare.URL},
	} {
		b.Run(from.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				get := askRaw(b, from.url, benchTile)
				for pb.Next() {
					get(fmt.Sprintf("/%d/%d/%d.png", benchZoom, 2+rand.IntN(8), 2+rand.IntN(8)))
				}
			})
		})
	}
}

// benchDatabase writes tiles as an MBTiles file.
func benchDatabase(b *testing.B, name string, tiles packtest.Tiles) {
	b.Helper()
	db, err := sqlite.OpenConn(name)
	if err != nil {
		b.Fatal(err)
	}
	err = sqlitex.ExecuteScript(db, `CREATE TABLE metadata (name TEXT, value TEXT);
CREATE TABLE tiles (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_data BLOB);
CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);`, nil)
	for c, p := range tiles {
		if err == nil {
			err = sqlitex.Execute(db, "INSERT INTO tiles VALUES (?, ?, ?, ?)", &sqlitex.ExecOptions{
				Args: []any{int64(c.Z), int64(c.X), int64(1)<<c.Z - 1 - int64(c.Y), p}})
		}
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}
