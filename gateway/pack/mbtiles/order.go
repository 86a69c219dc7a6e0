package mbtiles

import (
	"context"
	"math"

	"zombiezen.com/go/sqlite"

	"allium/protocols/status"
)

// orderSQL takes some tiles of a zoom.
const orderSQL = "SELECT tile_column, tile_row FROM tiles WHERE zoom_level = ?1 LIMIT 64"

// checkOrder warns of rows that count from the north, as those of other formats do: the map would be
// upside down. It is noticed if all tiles of the highest zoom touch the bounds only in that order.
func (a *Archive) checkOrder(ctx context.Context, c *conn) error {
	if a.info.Bounds == nil {
		return nil
	}
	asTMS, asXYZ := 0, 0
	z := a.info.MaxZoom
	err := c.query(ctx, lookBudget, "cannot compare tiles with the bounds", orderSQL, []int64{int64(z)},
		func(row *sqlite.Stmt) (bool, error) {
			x, y := row.ColumnInt64(0), row.ColumnInt64(1)
			flipped := 1<<z - 1 - y
			if touches(z, x, flipped, *a.info.Bounds) {
				asTMS++
			}
			if touches(z, x, y, *a.info.Bounds) {
				asXYZ++
			}
			return true, nil
		})
	if o := status.Of(err); ctx.Err() == nil && (o == status.Unsupported || o == status.Timeout) {
		return nil // a hint is not worth a refusal
	}
	if err == nil && asTMS == 0 && asXYZ > 0 {
		warn(&a.info, "The tiles lie outside of the bounds, and inside if rows count from the north. "+
			"If the map is upside down, write the pack again with rows in TMS order.")
	}
	return err
}

// touches reports whether a tile, with y from the north, has a point in common with bounds.
func touches(z uint8, x, y int64, bounds [4]float64) bool {
	n := float64(int64(1) << z)
	west, east := float64(x)/n*360-180, float64(x+1)/n*360-180
	north, south := latitude(float64(y)/n), latitude(float64(y+1)/n)
	return west <= bounds[2] && east >= bounds[0] && south <= bounds[3] && north >= bounds[1]
}

// latitude returns the latitude in degrees of a point of the square of Web Mercator, 0 at the north and
// 1 at the south.
func latitude(y float64) float64 { return math.Atan(math.Sinh(math.Pi*(1-2*y))) * 180 / math.Pi }
