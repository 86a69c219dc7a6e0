package pmtiles

import (
	"context"
	"fmt"
	"slices"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// Format is the name of the format in tile.Info.
const Format = "pmtiles"

// Archive is an open PMTiles archive. It implements tile.Archive.
type Archive struct {
	tree
	info tile.Info
}

var _ tile.Archive = (*Archive)(nil)

// Info returns what the archive says of itself. The counts are those of the header, unless the root
// directory holds all entries. The caller must not change it.
func (a *Archive) Info() *tile.Info { return &a.info }

// Find returns where a tile lies. It reads at most MaxDepth leaf directories, and none that are in the
// cache. It returns not_found for a missing tile and body_cap for one of more than tile.MaxBytes.
func (a *Archive) Find(ctx context.Context, c tile.Coord) (tile.Place, error) {
	if c.Z < a.info.MinZoom || c.Z > a.info.MaxZoom || !c.Valid() {
		return tile.Place{}, tile.ErrMissing
	}
	id := ID(c)
	e, err := a.floor(ctx, id)
	switch {
	case err != nil:
		return tile.Place{}, err
	case id < e.id || id-e.id >= uint64(e.run) || e.length == 0:
		return tile.Place{}, tile.ErrMissing
	case e.length > tile.MaxBytes:
		return tile.Place{}, status.Errorf(status.BodyCap, "tile %s has %d bytes: at most %d are supported", c,
			e.length, tile.MaxBytes)
	}
	return a.place(e), nil
}

// Read appends the bytes of a tile to buf, with one read of the source.
func (a *Archive) Read(ctx context.Context, buf []byte, p tile.Place) ([]byte, error) {
	offset := p.Offset - a.h.tiles.offset
	if p.Length < 0 || p.Length > tile.MaxBytes || offset < 0 || !a.h.tiles.holds(uint64(offset), uint64(p.Length)) {
		return buf, status.Errorf(status.BadRequest, "no tile of the pack can have %d bytes at %d", p.Length, p.Offset)
	}
	n := len(buf)
	buf = slices.Grow(buf, int(p.Length))[:n+int(p.Length)]
	if err := a.src.ReadAt(ctx, buf[n:], p.Offset); err != nil {
		return buf[:n], fmt.Errorf("read a tile of the pack: %w", err)
	}
	return buf, nil
}

// Close removes the archive's directories from the cache. It does not close the source, and none of
// its reads is under way when Close returns.
func (a *Archive) Close() error {
	a.dirs.close()
	return nil
}
