package manifest

import (
	"context"
	"errors"
	"io"
)

// Opener returns the content of a file entry: exactly e.Size verified bytes.
type Opener func(ctx context.Context, e Entry) (io.ReadCloser, error)

// Tree extracts e, a file or a directory with everything below it, as the
// target. It reads directories with get and files with open, one at a time,
// and holds at most 16 MiB of directory nodes, one chain of nested ones.
func (x *Extractor) Tree(ctx context.Context, get Getter, open Opener, e Entry) error {
	t := tree{x: x, open: open, walker: walker{get: get}}
	return t.entry(ctx, "", &e)
}

type tree struct {
	x      *Extractor
	open   Opener
	walker walker
}

func (t *tree) entry(ctx context.Context, path string, e *Entry) error {
	switch e.Kind {
	case Directory:
		if err := t.x.Dir(path); err != nil {
			return err
		}
		return t.fail(path, t.walker.each(ctx, span{root: e.Root, size: e.Size}, func(c *Entry) error {
			below := c.Name
			if path != "" {
				below = path + "/" + c.Name
			}
			return t.entry(ctx, below, c)
		}))
	case Link:
		return t.x.Symlink(path, e.Target)
	}
	return t.file(ctx, path, e)
}

func (t *tree) file(ctx context.Context, path string, e *Entry) error {
	if err := ctx.Err(); err != nil {
		return t.fail(path, err)
	}
	r, err := t.open(ctx, *e)
	if err != nil {
		return t.fail(path, err)
	}
	return t.fail(path, errors.Join(t.x.File(path, e.Size, e.Executable, r), r.Close()))
}

// fail ends the extraction with an error that did not come from it.
func (t *tree) fail(path string, err error) error {
	if err != nil && t.x.err == nil {
		t.x.err = t.x.entryError(path, err)
	}
	return t.x.err
}
