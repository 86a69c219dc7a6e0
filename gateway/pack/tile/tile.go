package tile

import (
	"bytes"
	"fmt"
)

// MaxZoom is the deepest zoom of a pack. The number of a tile fits 64 bits down to it.
const MaxZoom = 31

// Coord names a tile of the Web Mercator pyramid: column X from the west and row Y from the north.
type Coord struct {
	Z    uint8
	X, Y uint32
}

// Valid reports whether the tile lies in the pyramid.
func (c Coord) Valid() bool {
	return c.Z <= MaxZoom && uint64(c.X) < 1<<c.Z && uint64(c.Y) < 1<<c.Z
}

// String returns z/x/y.
func (c Coord) String() string { return fmt.Sprintf("%d/%d/%d", c.Z, c.X, c.Y) }

// Type is the format of the tiles of a pack.
type Type uint8

// The types of tiles. The zero Type is unknown.
const (
	Unknown Type = iota
	MVT          // Mapbox Vector Tile
	PNG
	JPEG
	WebP
	AVIF
)

var types = [...]struct{ ext, media string }{
	Unknown: {"", ""},
	MVT:     {"mvt", "application/vnd.mapbox-vector-tile"},
	PNG:     {"png", "image/png"},
	JPEG:    {"jpg", "image/jpeg"},
	WebP:    {"webp", "image/webp"},
	AVIF:    {"avif", "image/avif"},
}

// Ext returns the extension of the type's URLs: mvt, png, jpg, webp or avif.
func (t Type) Ext() string { return types[t].ext }

// Media returns the media type.
func (t Type) Media() string { return types[t].media }

// Vector reports whether a missing tile is an empty one, as it is for vector tiles.
func (t Type) Vector() bool { return t == MVT }

// ParseExt returns the type with an extension, also by the second names pbf and jpeg.
func ParseExt(ext string) (Type, bool) {
	switch ext {
	case "pbf":
		return MVT, true
	case "jpeg":
		return JPEG, true
	}
	for t := MVT; t <= AVIF; t++ {
		if types[t].ext == ext {
			return t, true
		}
	}
	return Unknown, false
}

// Detect returns the type of a tile by its first bytes, and Unknown for others. Vector tiles have no
// magic: gzip and the usual first field of a layer count as one.
func Detect(first []byte) Type {
	switch {
	case bytes.HasPrefix(first, []byte("\x89PNG\r\n\x1a\n")):
		return PNG
	case bytes.HasPrefix(first, []byte{0xff, 0xd8, 0xff}):
		return JPEG
	case len(first) >= 12 && string(first[:4]) == "RIFF" && string(first[8:12]) == "WEBP":
		return WebP
	case len(first) >= 12 && (string(first[4:12]) == "ftypavif" || string(first[4:12]) == "ftypavis"):
		return AVIF
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}), len(first) > 0 && first[0] == 0x1a:
		return MVT
	}
	return Unknown
}

// Encoding names the compression of tiles: a token of Content-Encoding, or empty for none.
type Encoding string

// The encodings of tiles.
const (
	Identity Encoding = ""
	Gzip     Encoding = "gzip"
	Brotli   Encoding = "br"
	Zstd     Encoding = "zstd"
)
