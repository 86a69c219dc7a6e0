package mbtiles

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// mount learns what the pack is.
func (a *Archive) mount(ctx context.Context, c *conn) error {
	tables, err := c.readSchema(ctx)
	if err != nil {
		return err
	}
	a.tables, c.auth.tables = tables, tables
	a.info.Format = Format
	meta, err := c.readMetadata(ctx)
	if err != nil {
		return err
	}
	meta.fill(&a.info)
	if err := a.findType(ctx, c, meta.format); err != nil {
		return err
	}
	if err := a.findZooms(ctx, c, meta); err != nil {
		return err
	}
	if err := c.proveIndex(ctx); err != nil {
		return err
	}
	return a.checkOrder(ctx, c)
}

// firstSQL finds any tile that is not missing.
const firstSQL = "SELECT tile_data FROM tiles WHERE octet_length(tile_data) > 0 LIMIT 1"

// findType takes the type and the encoding from the first tile that is not missing. The metadata counts
// if the tile does not tell.
func (a *Archive) findType(ctx context.Context, c *conn, format string) error {
	var first []byte
	err := c.query(ctx, lookBudget, "cannot look at the first tile", firstSQL, nil,
		func(row *sqlite.Stmt) (more bool, err error) {
			first, err = appendBlob(nil, row, 0)
			return false, err
		})
	if err != nil {
		return err
	}
	if first == nil {
		return status.Errorf(status.Corrupt, "the pack has no tiles")
	}
	said, known := parseFormat(format)
	seen := tile.Detect(first)
	a.info.Type, a.info.Encoding = seen, encodingOf(first)
	switch {
	case seen == tile.Unknown && !known:
		return status.Errorf(status.Unsupported, "the tiles are of no type that is served: mvt, png, jpg, webp or avif")
	case seen == tile.Unknown:
		a.info.Type = said
	case format == "":
		warn(&a.info, "The metadata has no format. The first tile is %s.", seen.Ext())
	case said != seen:
		warn(&a.info, "The metadata says format %s. The first tile is %s.", shown(format), seen.Ext())
	}
	return nil
}

// encodingOf returns how a stored tile is compressed.
func encodingOf(stored []byte) tile.Encoding { return new(tile.Info).EncodingOf(stored) }

// zoomSQL finds the lowest and the highest zoom. Each is the end of an index, also of one below a view that joins
// tables, or a pass over all tiles.
var zoomSQL = [2]string{
	"SELECT typeof(zoom_level) = 'integer', zoom_level FROM tiles WHERE zoom_level IS NOT NULL ORDER BY 2 LIMIT 1",
	"SELECT typeof(zoom_level) = 'integer', zoom_level FROM tiles WHERE zoom_level IS NOT NULL ORDER BY 2 DESC LIMIT 1",
}

// findZooms looks for the zooms. A pack without an index that is too large for that has those of its
// metadata.
func (a *Archive) findZooms(ctx context.Context, c *conn, meta *metadata) error {
	var zooms [2]int64
	for i, sql := range zoomSQL {
		zooms[i] = -1
		err := c.query(ctx, lookBudget, "cannot find the zooms", sql, nil, func(row *sqlite.Stmt) (bool, error) {
			zooms[i] = row.ColumnInt64(1)
			if row.ColumnInt64(0) != 1 || zooms[i] < 0 || zooms[i] > tile.MaxZoom {
				return false, status.Errorf(status.Corrupt,
					"a zoom_level of the pack is %s, must be an integer of 0 to %d", shown(row.ColumnText(1)),
					tile.MaxZoom)
			}
			return false, nil
		})
		switch o := status.Of(err); {
		case err == nil && zooms[i] < 0:
			return status.Errorf(status.Corrupt, "no tile of the pack has a zoom_level")
		case err == nil:
			continue
		case o != status.Unsupported && o != status.Timeout || ctx.Err() != nil || !meta.hasZooms:
			return err
		}
		a.info.MinZoom, a.info.MaxZoom = meta.minZoom, meta.maxZoom
		warn(&a.info, "The zooms are those of the metadata: %s.", err)
		return nil
	}
	a.info.MinZoom, a.info.MaxZoom, a.looked = uint8(zooms[0]), uint8(zooms[1]), true
	return nil
}

// proveIndex looks for a tile that cannot be. That takes a few pages with an index, and all of them without.
func (c *conn) proveIndex(ctx context.Context) error {
	return c.query(ctx, tileBudget, "cannot find a tile in the pack", readSQL, []int64{0, -1, -1},
		func(*sqlite.Stmt) (bool, error) { return false, nil })
}

// warn adds a sentence for the operator.
func warn(info *tile.Info, format string, args ...any) {
	if len(info.Warnings) < maxWarnings {
		info.Warnings = append(info.Warnings, fmt.Sprintf(format, args...))
	}
}
