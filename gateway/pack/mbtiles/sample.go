package mbtiles

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

const (
	countSQL = "SELECT count(*) FROM tiles"
	// someSQL finds a tile of a zoom that is not missing, at a column or east of it.
	someSQL = `SELECT tile_column, tile_row, tile_data FROM tiles
WHERE zoom_level = ?1 AND tile_column >= ?2 AND octet_length(tile_data) > 0 LIMIT 1`
	columnsOfZoom = 3 // tiles of one zoom that are read, at most
	zoomsOfSample = 6
)

// Sample reads up to 18 tiles, of zooms from the lowest to the highest and from the west to the east,
// and returns how many. A tile that is not of the pack's type is corrupt.
func (a *Archive) Sample(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, mountTime)
	defer cancel()
	err = a.pool.with(ctx, a, func(c *conn) error {
		for _, z := range someZooms(a.info.MinZoom, a.info.MaxZoom) {
			for i := range int64(columnsOfZoom) {
				read, err := a.sampleOne(ctx, c, z, i<<z/columnsOfZoom)
				if err != nil {
					return err
				}
				if read {
					n++
				}
			}
		}
		return nil
	})
	if err == nil && n == 0 {
		err = status.Errorf(status.Corrupt, "the pack has no tiles in its zooms %d to %d", a.info.MinZoom,
			a.info.MaxZoom)
	}
	return n, err
}

// sampleOne reads one tile of a zoom, at a column or east of it, if there is one.
func (a *Archive) sampleOne(ctx context.Context, c *conn, z uint8, column int64) (read bool, err error) {
	err = c.query(ctx, tileBudget, "cannot read a sample of the tiles", someSQL, []int64{int64(z), column},
		func(row *sqlite.Stmt) (bool, error) {
			x, y := row.ColumnInt64(0), row.ColumnInt64(1)
			if x < 0 || x >= 1<<z || y < 0 || y >= 1<<z {
				return false, nil // never served
			}
			at := tile.Coord{Z: z, X: uint32(x), Y: uint32(1<<z - 1 - y)}
			data, err := appendBlob(nil, row, 2)
			if err == nil {
				err = checkTile(a.info.Type, data)
			}
			if err != nil {
				return false, fmt.Errorf("tile %s: %w", at, err)
			}
			read = true
			return false, nil
		})
	return read, err
}

// Count returns the number of tiles, or 0 if counting takes longer than a second. The number of different
// contents is not known, and contents is 0.
func (a *Archive) Count(ctx context.Context) (tiles, contents int64, err error) {
	err = a.pool.with(ctx, a, func(c *conn) error {
		return c.query(ctx, countBudget, "cannot count the tiles", countSQL, nil, func(row *sqlite.Stmt) (bool, error) {
			tiles = row.ColumnInt64(0)
			return false, nil
		})
	})
	if o := status.Of(err); ctx.Err() == nil && (o == status.Unsupported || o == status.Timeout) {
		return 0, 0, nil
	}
	return tiles, 0, err
}

// someZooms returns at most zoomsOfSample zooms, with the lowest and the highest.
func someZooms(lowest, highest uint8) []uint8 {
	n := min(int(highest-lowest), zoomsOfSample-1)
	zooms := []uint8{lowest}
	for i := 1; i <= n; i++ {
		zooms = append(zooms, lowest+uint8(i*int(highest-lowest)/n))
	}
	return zooms
}
