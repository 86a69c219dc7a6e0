package manifest

import (
	"context"

	"allium/protocols/b3"
)

// Bounds of one tree, for [Walk] and an extraction alike.
const (
	maxPath    = 4096 // bytes of the path of an entry from the root of the tree
	maxNesting = 255  // directories inside each other, the root included
)

// Walk calls fn for every entry below the directory root, at any depth, with
// its slash-separated path: a directory first, then what is in it, each
// directory in bytewise order of the names. It follows no links. Whatever the
// nodes say it holds at most 16 MiB of them (by their encoding) and goes at
// most 255 directories and 4,096 bytes of path deep; a tree beyond that ends
// with body_cap or bad_request. The first error ends the walk: fn's as it is,
// get's, or that of a directory that is not one. A small tree can name the
// same directory in many places: a caller that must not take for ever bounds
// its context or counts.
func Walk(ctx context.Context, get Getter, root b3.Root, fn func(path string, e Entry) error) error {
	t := tree{walker: walker{get: get}, fn: fn}
	return t.dir(ctx, span{root: root}, "", 1)
}

type tree struct {
	walker
	fn func(string, Entry) error
}

// dir walks the directory at s, the depth-th on the way down.
func (t *tree) dir(ctx context.Context, s span, path string, depth int) error {
	return t.each(ctx, s, func(e *Entry) error {
		below := e.Name
		if path != "" {
			below = path + "/" + e.Name
		}
		if len(below) > maxPath {
			return refuse(below, "the path has %d bytes, the limit is %d", len(below), maxPath)
		}
		if e.Kind == Directory && depth == maxNesting {
			return refuse(below, "more than %d directories inside each other", maxNesting)
		}
		if err := t.fn(below, *e); err != nil || e.Kind != Directory {
			return err
		}
		return t.dir(ctx, span{root: e.Root, size: e.Size}, below, depth+1)
	})
}
