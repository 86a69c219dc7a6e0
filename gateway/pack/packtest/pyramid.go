package packtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"allium/gateway/pack/tile"
)

// Tiles are the stored bytes of tiles by their coordinates.
type Tiles map[tile.Coord][]byte

// Pyramid returns a tile for each coordinate of the zooms from min to max that keep accepts; a nil keep
// accepts all. content returns the stored bytes.
func Pyramid(min, max uint8, keep func(tile.Coord) bool, content func(tile.Coord) []byte) Tiles {
	tiles := Tiles{}
	for z := min; z <= max; z++ {
		for x := range uint32(1) << z {
			for y := range uint32(1) << z {
				if c := (tile.Coord{Z: z, X: x, Y: y}); keep == nil || keep(c) {
					tiles[c] = content(c)
				}
			}
		}
	}
	return tiles
}

// Content returns bytes that begin like a tile of a type and contain text.
func Content(t tile.Type, text string) []byte {
	first := map[tile.Type]string{
		tile.MVT: "\x1a" + string(rune(len(text))), tile.PNG: "\x89PNG\r\n\x1a\n", tile.JPEG: "\xff\xd8\xff\xe0",
		tile.WebP: "RIFF\x00\x00\x00\x00WEBP", tile.AVIF: "\x00\x00\x00\x1cftypavif",
	}
	return []byte(first[t] + text)
}

// Named returns a function for Pyramid: each tile is of type t, contains its own coordinate and is
// padded to at least size bytes.
func Named(t tile.Type, size int) func(tile.Coord) []byte {
	return func(c tile.Coord) []byte {
		p := Content(t, c.String())
		return append(p, make([]byte, max(0, size-len(p)))...)
	}
}

// Sea returns a function for Pyramid: like Named, but all tiles in the west half are equal.
func Sea(t tile.Type) func(tile.Coord) []byte {
	named := Named(t, 0)
	return func(c tile.Coord) []byte {
		if c.Z > 0 && c.X < 1<<(c.Z-1) {
			return Content(t, "sea")
		}
		return named(c)
	}
}

// Gzip returns p compressed.
func Gzip(p []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(p); err != nil {
		panic(fmt.Sprint("compress into memory: ", err))
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprint("compress into memory: ", err))
	}
	return b.Bytes()
}

// Gunzip returns p decompressed.
func Gunzip(p []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
