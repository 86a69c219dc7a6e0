package manifest

import (
	"cmp"
	"context"

	"allium/protocols/b3"
)

// The bounds of one tree, for [Walk] and for an extraction.
const (
	maxPath    = 4096 // longest path of an entry from the root of the tree, in bytes
	maxNesting = 255  // most directories inside each other, including the root

	// maxRepeated bounds the entries that a walk of paths meets in directories that it has read before. A daily copy of
	// 100,000 files over a year has fewer; a malicious tree of a few directories would have more than anybody can
	// count.
	maxRepeated = 1 << 26
)

// Walk calls fn for every entry below the directory root, at any depth, with its
// slash-separated path. It visits a directory before the entries in it, and the
// entries of one directory in byte order of their names. It does not follow links.
//
// Walk holds at most 16 MiB of encoded nodes, for any input. A tree that needs
// more ends with body_cap. A tree with more than 255 directories inside each
// other, or a path of more than 4,096 bytes, ends with bad_request.
//
// The first error ends the walk: an error of fn unchanged, an error of get, or
// bad_request for an object that is no directory. A small tree can name the same
// directory in many places, and Walk visits each of them, as somebody who writes
// the tree as files needs. It ends with bad_request after 67 million entries of
// directories that it has read before. To read each directory once, and without a
// path, list the references of a store's collector.
func Walk(ctx context.Context, get Getter, root b3.Root, fn func(path string, e Entry) error) error {
	return WalkWithin(ctx, get, root, maxLoaded, fn)
}

// WalkWithin is Walk with at most so many bytes of encoded nodes.
func WalkWithin(ctx context.Context, get Getter, root b3.Root, most int, fn func(path string, e Entry) error) error {
	t := tree{walker: walker{nodes: get.nodes(), most: most}, fn: fn, repeats: repeats{left: maxRepeated}}
	return t.dir(ctx, nodeRef{root: root}, "", 1)
}

// limit returns the most bytes of encoded nodes that w holds.
func (w *walker) limit() int { return cmp.Or(w.most, maxLoaded) }

type tree struct {
	walker
	repeats
	fn func(string, Entry) error
}

// repeats bounds the entries of directories that were read before.
type repeats struct {
	seen Seen
	left int
}

// count counts one entry of a directory that was read before.
func (r *repeats) count(path string) error {
	if r.left--; r.left < 0 {
		return invalidEntry(path,
			"the directories around it occur in too many places to visit them all. Read parts of the tree")
	}
	return nil
}

// dir walks the directory at s. depth is 1 for the root.
func (t *tree) dir(ctx context.Context, s nodeRef, path string, depth int) error {
	repeated := !t.seen.Add(s.root)
	return t.each(ctx, s, func(e *Entry) error {
		below := e.Name
		if path != "" {
			below = path + "/" + e.Name
		}
		if len(below) > maxPath {
			return invalidEntry(below, "the path has %d bytes, the limit is %d", len(below), maxPath)
		}
		if e.Kind == Directory && depth == maxNesting {
			return invalidEntry(below, "it has more than %d directories inside each other", maxNesting)
		}
		if repeated {
			if err := t.count(below); err != nil {
				return err
			}
		}
		if err := t.fn(below, *e); err != nil || e.Kind != Directory {
			return err
		}
		return t.dir(ctx, nodeRef{root: e.Root, size: e.Size}, below, depth+1)
	})
}
