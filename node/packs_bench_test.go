package node_test

import (
	"bytes"
	"fmt"
	imagepkg "image"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

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
	var image bytes.Buffer
	if err := png.Encode(&image, imagepkg.NewGray(imagepkg.Rect(0, 0, 256, 256))); err != nil {
		b.Fatal(err)
	}
	tiles := packtest.Pyramid(0, benchZoom, nil, func(c tile.Coord) []byte {
		p := append(image.Bytes()[:image.Len():image.Len()], c.String()...)
		return append(p, make([]byte, benchTile-len(p))...)
	})
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
	if err := packtest.WriteMBTiles(database, tiles); err != nil {
		b.Fatal(err)
	}
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
