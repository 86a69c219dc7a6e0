package mbtiles

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"zombiezen.com/go/sqlite"

	"allium/gateway/pack/tile"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Format names the format in tile.Info.
const Format = "mbtiles"

// IsDatabase reports whether a file that begins with first may be a pack: whether it is an SQLite
// database.
func IsDatabase(first []byte) bool { return bytes.HasPrefix(first, []byte(magic)) }

// Archive is one open MBTiles pack. It implements [tile.Archive].
//
// The place of a tile is its number in the pyramid: the tiles of lower zooms come first, and those of
// one zoom row by row from the north-west. Equal tiles have different places.
type Archive struct {
	src    tile.Source
	pool   *Pool
	gate   *limits.Gate    // queries that run, at most connsOfArchive
	tables map[string]bool // that may be read
	info   tile.Info
	looked bool // the zooms of info were found by looking, so there is nothing outside of them
}

var _ tile.Archive = (*Archive)(nil)

// Open reads the schema and the metadata of a pack. It returns corrupt for a file that is damaged or is no MBTiles
// pack, unsupported for a pack that this package cannot read, and timeout after 5 s. The archive takes its connections
// from p. The caller keeps src open until the archive is closed.
func Open(ctx context.Context, src tile.Source, p *Pool) (*Archive, error) {
	ctx, cancel := context.WithTimeout(ctx, mountTime)
	defer cancel()
	if err := checkHeader(ctx, src); err != nil {
		return nil, err
	}
	var unlisted *limits.Registry // gateway.pack.mbtiles, which comes after it, is listed
	a := &Archive{src: src, pool: p, tables: schemaTables}
	a.gate = unlisted.NewGate(limits.Spec{Name: "gateway.pack.mbtiles"}, connsOfArchive, waitingOfArchive)
	if err := a.pool.with(ctx, a, func(c *conn) error { return a.mount(ctx, c) }); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Info returns what the pack says of itself, and what was found by looking. The caller must not change
// it.
func (a *Archive) Info() *tile.Info { return &a.info }

// Close frees the connections of the archive. No other call may be under way or follow.
func (a *Archive) Close() error { return a.pool.closeArchive(a) }

const readSQL = `SELECT tile_data FROM tiles WHERE zoom_level = ?1 AND tile_column = ?2 AND tile_row = ?3 LIMIT 1`

// Find returns where a tile lies, if there is one, without reading the pack: [Archive.Read] tells whether there is.
// A tile outside the pyramid is missing.
func (a *Archive) Find(_ context.Context, c tile.Coord) (tile.Place, error) {
	if !c.Valid() || a.looked && (c.Z < a.info.MinZoom || c.Z > a.info.MaxZoom) {
		return tile.Place{}, tile.ErrMissing
	}
	return tile.Place{Offset: number(c)}, nil
}

func errTooLarge(n int64) error {
	return status.Errorf(status.BodyCap, "the tile has %d bytes: at most %d are supported", n, tile.MaxBytes)
}

var errNoBlob = status.Errorf(status.Corrupt, "the tile is a text or a number instead of a blob")

// Read appends the stored bytes of a tile that Find found to buf, or returns tile.ErrMissing for a missing one. A tile
// that is NULL or empty is missing. A tile that is text or a number is corrupt. One of more than tile.MaxBytes is
// refused with body_cap.
func (a *Archive) Read(ctx context.Context, buf []byte, p tile.Place) ([]byte, error) {
	c, ok := coordOf(p.Offset)
	if !ok {
		return buf, tile.ErrMissing
	}
	err := a.pool.with(ctx, a, func(conn *conn) error {
		var err error
		buf, err = conn.read(ctx, buf, c)
		return err
	})
	return buf, err
}

// read appends the bytes of a tile to buf.
func (c *conn) read(ctx context.Context, buf []byte, at tile.Coord) ([]byte, error) {
	found := false
	err := c.query(ctx, tileBudget, "cannot read the tile", readSQL, rowOf(at), func(row *sqlite.Stmt) (bool, error) {
		var err error
		buf, err = appendBlob(buf, row, 0)
		found = err == nil
		return false, err
	})
	if err == nil && !found {
		err = tile.ErrMissing
	}
	return buf, err
}

// appendBlob appends the blob in a column to buf. It returns tile.ErrMissing for NULL and an empty one.
func appendBlob(buf []byte, row *sqlite.Stmt, column int) ([]byte, error) {
	switch row.ColumnType(column) {
	case sqlite.TypeBlob:
	case sqlite.TypeNull:
		return buf, tile.ErrMissing
	default:
		return buf, errNoBlob
	}
	n := row.ColumnLen(column)
	switch {
	case n == 0:
		return buf, tile.ErrMissing
	case n > tile.MaxBytes:
		return buf, errTooLarge(int64(n))
	}
	start := len(buf)
	buf = slices.Grow(buf, n)[:start+n]
	return buf[:start+row.ColumnBytes(column, buf[start:])], nil
}

// rowOf returns zoom_level, tile_column and tile_row of a tile. Rows count from the south.
func rowOf(c tile.Coord) []int64 {
	return []int64{int64(c.Z), int64(c.X), 1<<c.Z - 1 - int64(c.Y)}
}

// firstOf returns the number of the first tile of a zoom: (4^z - 1) / 3.
func firstOf(z uint8) int64 { return int64((uint64(1)<<(2*z) - 1) / 3) }

// number returns the number of a valid tile in the pyramid.
func number(c tile.Coord) int64 { return firstOf(c.Z) + int64(c.Y)<<c.Z + int64(c.X) }

// coordOf returns the tile with a number.
func coordOf(n int64) (tile.Coord, bool) {
	for z := uint8(tile.MaxZoom); n >= 0; z-- {
		if first := firstOf(z); n >= first {
			c := tile.Coord{Z: z, X: uint32((n - first) & (1<<z - 1)), Y: uint32((n - first) >> z)}
			return c, c.Valid()
		}
	}
	return tile.Coord{}, false
}
