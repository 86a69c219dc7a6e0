package pmtiles

import (
	"context"
	"fmt"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

var (
	errTooDeep  = damaged("leaf directories are nested more than %d deep", MaxDepth)
	errNotAPart = damaged("a leaf directory has tiles that do not belong there")
)

// tree finds the entries of an archive in its root and leaf directories.
type tree struct {
	src  tile.Source
	h    header
	dirs *directories
}

// place returns where the tile of an entry lies.
func (t *tree) place(e entry) tile.Place {
	return tile.Place{Offset: t.h.tiles.offset + int64(e.offset), Length: int64(e.length)}
}

// branch is a directory of the tree, and the IDs that it may have entries for.
type branch struct {
	at       section
	from, to uint64 // from ≤ ID < to
}

// root returns the branch of the root directory.
func (t *tree) root() branch { return branch{t.h.root, 0, MaxID + 1} }

// leaf returns the branch of a leaf directory, the i-th entry of the directory of b.
func (t *tree) leaf(b branch, dir directory, i int) branch {
	e := dir[i]
	leaf := branch{section{t.h.leaves.offset + int64(e.offset), int64(e.length)}, e.id, b.to}
	if i+1 < len(dir) {
		leaf.to = dir[i+1].id
	}
	return leaf
}

// holds reports whether dir may be the directory of b.
func (b branch) holds(dir directory) bool {
	return dir[0].id >= b.from && dir[len(dir)-1].end() <= b.to
}

// directory returns the directory of b from the cache or the file.
func (t *tree) directory(ctx context.Context, b branch) (directory, error) {
	dir, err := t.dirs.get(ctx, b.at)
	if err == nil && !b.holds(dir) {
		err = errNotAPart
	}
	return dir, err
}

// floor returns the last entry of tiles whose ID is at most id, in the leaf for id. It returns an entry
// without a run if there is none.
func (t *tree) floor(ctx context.Context, id uint64) (entry, error) {
	return t.descend(ctx, func(dir directory) int { return dir.find(id) })
}

// ends returns the first and the last entry of tiles, in the order of the tile IDs.
func (t *tree) ends(ctx context.Context) (first, last entry, err error) {
	if first, err = t.descend(ctx, func(directory) int { return 0 }); err != nil {
		return first, last, err
	}
	last, err = t.floor(ctx, MaxID)
	return first, last, err
}

// descend follows the entry that choose chooses in each directory, to one of tiles. It returns an entry
// without a run if the choice is negative.
func (t *tree) descend(ctx context.Context, choose func(directory) int) (entry, error) {
	b := t.root()
	for depth := 0; ; depth++ {
		dir, err := t.directory(ctx, b)
		if err != nil {
			return entry{}, err
		}
		i := choose(dir)
		switch {
		case i < 0:
			return entry{}, nil
		case dir[i].run > 0:
			return dir[i], nil
		case depth == MaxDepth:
			return entry{}, errTooDeep
		}
		b = t.leaf(b, dir, i)
	}
}

// load reads and decodes the directory at a place of the file.
func (t *tree) load(ctx context.Context, at section) (directory, error) {
	if at.length > MaxDirectory {
		return nil, status.Errorf(status.BodyCap, "a directory of the pack has %d bytes: at most %d are supported",
			at.length, MaxDirectory)
	}
	stored := make([]byte, at.length)
	if err := t.src.ReadAt(ctx, stored, at.offset); err != nil {
		return nil, fmt.Errorf("read a directory of the pack: %w", err)
	}
	return t.dirs.cache.decode(ctx, &t.h, stored)
}
