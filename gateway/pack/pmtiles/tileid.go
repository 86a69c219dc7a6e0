package pmtiles

import (
	"math/bits"

	"allium/gateway/pack/tile"
)

// MaxID is the ID of the last tile of zoom 31.
const MaxID = 1<<64/3 - 1

// ID returns the ID of a valid coordinate: the number of tiles of all lower zooms, plus its place on the Hilbert curve
// of its zoom.
func ID(c tile.Coord) uint64 {
	x, y, along := c.X, c.Y, uint64(0)
	for n := int(c.Z) - 1; n >= 0; n-- {
		rx, ry := x>>n&1, y>>n&1
		along = along<<2 | uint64(3*rx^ry)
		if ry == 0 {
			if rx == 1 {
				x, y = ^x, ^y
			}
			x, y = y, x
		}
	}
	return firstID(c.Z) + along
}

// CoordOf returns the coordinate of the tile with an ID of at most MaxID.
func CoordOf(id uint64) tile.Coord {
	z := zoomOf(id)
	along := id - firstID(z)
	var x, y uint32
	for n := range z {
		rx := uint32(along >> 1 & 1)
		ry := uint32(along&1) ^ rx
		if ry == 0 {
			if rx == 1 {
				x, y = 1<<n-1-x, 1<<n-1-y
			}
			x, y = y, x
		}
		x, y, along = x|rx<<n, y|ry<<n, along>>2
	}
	return tile.Coord{Z: z, X: x, Y: y}
}

// firstID returns the ID of the first tile of a zoom.
func firstID(z uint8) uint64 { return (1<<(2*uint(z)) - 1) / 3 }

// zoomOf returns the zoom of the tile with an ID of at most MaxID. 3*id+1 lies from 4^z to 4^(z+1)-1.
func zoomOf(id uint64) uint8 { return uint8((bits.Len64(3*id+1) - 1) / 2) }
