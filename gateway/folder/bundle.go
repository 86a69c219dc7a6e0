package folder

import (
	"context"
	"io"
	"strconv"
	"strings"

	"allium/gateway/verified/bundle"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// maxSelected bounds the ranges in the parameter objects.
const maxSelected = 512

// bundler writes a bundle of a tree.
type bundler struct {
	t      *tree
	w      *bundle.Writer // nil: objects are counted
	bodies int64          // bytes of the largest file in the bundle
	only   numbers
	number uint32 // of the next object
}

// write walks the tree and writes its objects.
func (b *bundler) write() error {
	b.number = 0
	err := b.t.walkNodes(b.node, func(_ string, e *manifest.Entry) error {
		if e.Kind != manifest.File {
			return nil
		}
		n := b.take()
		switch {
		case b.w == nil || !b.only.has(n):
			return nil
		case e.Size > b.bodies:
			return b.w.LeftOut(n, e.Root)
		}
		return b.object(n, e.Root, e.Size)
	})
	if err != nil || b.w == nil {
		return err
	}
	return b.w.End(b.number)
}

// take returns the number of the next object.
func (b *bundler) take() uint32 {
	b.number++
	return b.number - 1
}

// node returns a manifest for the walk, and writes it.
func (b *bundler) node(ctx context.Context, root b3.Root) ([]byte, error) {
	p, err := b.t.node(ctx, root)
	if err != nil {
		return nil, err
	}
	n := b.take()
	if b.w == nil || !b.only.has(n) {
		return p, nil
	}
	return p, b.object(n, root, int64(len(p)))
}

// object writes an object. An object that is not here, or has another size, is left out: a client that asks for it
// alone is told why.
func (b *bundler) object(n uint32, root b3.Root, size int64) error {
	if p := b.t.Memory(root); p != nil && int64(len(p)) == size && size <= b3.GroupSize {
		return b.w.Small(n, root, p)
	}
	c, _, err := b.t.Open(root)
	switch {
	case status.Of(err) == status.NotFound:
		return b.w.LeftOut(n, root)
	case err != nil:
		return err
	}
	defer c.Close()
	if c.Size() != size {
		return b.w.LeftOut(n, root)
	}
	began, err := b.w.Object(n, root, func(to io.Writer) error { return c.Encode(b.t.Context(), to, 0, size) })
	if !began && status.Of(err) == status.NotFound {
		return b.w.LeftOut(n, root)
	}
	return err
}

// numbers is a set of numbers of objects, as ranges in ascending order; nil: all.
type numbers [][2]uint32

// has reports whether n is in the set.
func (s numbers) has(n uint32) bool {
	for _, r := range s {
		if n <= r[1] {
			return n >= r[0]
		}
	}
	return s == nil
}

// parseNumbers parses the parameter objects: FIRST-LAST, FIRST- or NUMBER, ascending, with commas between.
func parseNumbers(text string) (s numbers, err error) {
	bad := status.Errorf(status.BadRequest, "parameter objects is not a list of at most %d ranges FIRST-LAST, FIRST- "+
		"or NUMBER in ascending order, with commas between them", maxSelected)
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 32)
		to := from
		if err == nil && ranged {
			if to = 1<<32 - 1; last != "" {
				to, err = strconv.ParseUint(last, 10, 32)
			}
		}
		if err != nil || to < from || len(s) > 0 && uint64(s[len(s)-1][1]) >= from || len(s) == maxSelected {
			return nil, bad
		}
		s = append(s, [2]uint32{uint32(from), uint32(to)})
	}
	return s, nil
}
