package tile

import (
	"bytes"
	"context"
	"encoding/json"

	"allium/protocols/status"
)

// Bounds of every archive. A pack that exceeds one is corrupt or refused with body_cap.
const (
	MaxBytes    = 16 << 20  // of one stored tile
	MaxMetadata = 512 << 10 // of the JSON metadata, decoded
)

// Source gives the bytes of a pack. Its methods may be called from any goroutine.
type Source interface {
	// Size returns the size in bytes.
	Size() int64
	// ReadAt fills p with the bytes from off on. Bytes of a pack with an address are proved before it
	// returns. It returns an error with an outcome, and reads nothing past the end: such a call is
	// corrupt. It stops when ctx is done.
	ReadAt(ctx context.Context, p []byte, off int64) error
}

// Place locates the bytes of a tile. Tiles with equal places have equal bytes, so a cache of
// what is known of a tile may be keyed by it.
type Place struct {
	Offset int64 // in the file, or the number of the row
	Length int64 // in bytes; 0 if it is known only when the tile is read
}

// Archive is one open pack. Its methods may be called from any goroutine.
type Archive interface {
	// Info returns what the pack says of itself, and what was found by looking. The caller must not
	// change it.
	Info() *Info
	// Find returns where a tile lies, or [ErrMissing]. An empty tile and one outside the pyramid are
	// missing. An archive that would have to read the tile for that leaves it to Read, with a Length of 0.
	Find(ctx context.Context, c Coord) (Place, error)
	// Read appends the stored bytes of a tile that Find found to buf. It returns [ErrMissing] for a missing
	// tile that Find left to it.
	Read(ctx context.Context, buf []byte, p Place) ([]byte, error)
	// Close frees what the archive holds. No other call may be under way or follow.
	Close() error
}

// Texts are the texts of a pack's author. Nothing vouches for them.
type Texts struct{ Name, Description, Attribution, Version string }

// Info says what a pack is. Its texts are its author's, and nothing vouches for them.
type Info struct {
	Format   string // pmtiles or mbtiles
	Type     Type
	Encoding Encoding

	MinZoom, MaxZoom uint8       // found in the directory, not believed
	Bounds           *[4]float64 // west, south, east, north in degrees; nil: unknown
	Center           *[3]float64 // longitude, latitude, zoom; nil: unknown

	Texts

	VectorLayers json.RawMessage // a JSON list; nil: the metadata has none
	Tiles        int64           // addressed tiles; 0: not counted
	Contents     int64           // tiles of different bytes; 0: not counted

	Warnings []string // what is odd and yet can be served: sentences for the operator
}

// EncodingOf returns the encoding of a stored tile. A pack of gzip tiles may hold some that are not
// compressed, and the other way round.
func (i *Info) EncodingOf(stored []byte) Encoding {
	if i.Encoding != Gzip && i.Encoding != Identity {
		return i.Encoding
	}
	if bytes.HasPrefix(stored, gzipMagic) {
		return Gzip
	}
	return Identity
}

var gzipMagic = []byte{0x1f, 0x8b}

// ErrMissing is the error of [Archive.Find] for a tile that the pack does not have. It is not_found, as
// is the error of a pack whose bytes nobody has.
var ErrMissing = status.Errorf(status.NotFound, "the pack has no such tile")
