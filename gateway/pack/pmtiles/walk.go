package pmtiles

import (
	"context"
	"fmt"

	"allium/gateway/pack/tile"
)

// Run is one entry of tiles.
type Run struct {
	First uint64 // the ID of the first tile
	Tiles uint32 // equal tiles with consecutive IDs
	Place tile.Place
}

// Walk calls visit with each entry of tiles, in the order of the tile IDs, and returns its first
// error. It reads each directory once, holds at most MaxDepth+1 of them and puts none into the cache.
// It stops when ctx is done.
func (a *Archive) Walk(ctx context.Context, visit func(Run) error) error {
	return a.walk(ctx, func(e entry) error {
		if e.run == 0 {
			return nil
		}
		return visit(Run{e.id, e.run, a.place(e)})
	})
}

// Counts are the numbers of an archive.
type Counts struct {
	Tiles    int64 // addressed
	Entries  int64 // of tiles
	Leaves   int64 // leaf directories
	Contents int64 // tiles at different places; 0: too many to tell in an unclustered archive
}

// Count counts what Walk finds.
func (a *Archive) Count(ctx context.Context) (Counts, error) {
	c := a.newCounter()
	err := a.walk(ctx, func(e entry) error { c.add(e); return nil })
	return c.counts(), err
}

// walk calls visit with each entry: with that of a leaf directory first, and then with those in it.
func (t *tree) walk(ctx context.Context, visit func(entry) error) error {
	w := walker{t: t, visit: visit, left: t.h.leaves.length}
	return w.walk(ctx, t.root(), 0)
}

// walker is a walk under way.
type walker struct {
	t     *tree
	visit func(entry) error
	left  int64 // bytes of leaf directories that were not read; they do not overlap
}

// walk visits the entries of b, a directory below depth others.
func (w *walker) walk(ctx context.Context, b branch, depth int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read the directories of the pack: %w", err)
	}
	dir, err := w.t.load(ctx, b.at)
	if err != nil {
		return err
	}
	if !b.holds(dir) {
		return errNotAPart
	}
	for i, e := range dir {
		if err := w.visit(e); err != nil {
			return err
		}
		if e.run > 0 {
			continue
		}
		if depth == MaxDepth {
			return errTooDeep
		}
		if w.left -= int64(e.length); w.left < 0 {
			return damaged("leaf directories overlap")
		}
		if err := w.walk(ctx, w.t.leaf(b, dir, i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// counter counts entries in the order of their IDs. It tells contents apart by their offsets: a
// clustered archive stores each where the first of its tiles comes, so it lies behind all before it.
type counter struct {
	n         Counts
	clustered bool
	end       uint64              // of the furthest tile
	seen      map[uint64]struct{} // offsets, unless clustered; nil: too many
}

func (t *tree) newCounter() *counter {
	return &counter{clustered: t.h.clustered, seen: map[uint64]struct{}{}}
}

// add counts e.
func (c *counter) add(e entry) {
	if e.run == 0 {
		c.n.Leaves++
		return
	}
	c.n.Entries++
	c.n.Tiles += int64(e.run) // all runs of an archive are fewer than 2^63
	switch {
	case c.clustered:
		if e.offset >= c.end {
			c.n.Contents++
			c.end = e.offset + uint64(e.length)
		}
	case c.seen != nil:
		if c.seen[e.offset] = struct{}{}; len(c.seen) > distinctOffsets {
			c.seen = nil
		}
	}
}

// counts returns the numbers.
func (c *counter) counts() Counts {
	n := c.n
	if !c.clustered {
		n.Contents = int64(len(c.seen))
	}
	return n
}
