package reading

import (
	"bytes"
	"context"
	"errors"

	"allium/gateway/verified"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Through returns a source that reads through a gateway that need not be trusted. It asks for a directory as one
// bundle, in which each object proves itself, and for large files alone. A gateway that gives no bundle is read as
// [Ahead] reads.
func Through(g *verified.Gateway) Source {
	return &bundled{newReadAhead(opener.Through{Gateway: g}), g}
}

type bundled struct {
	*readAhead
	gateway *verified.Gateway
}

// walk implements Source.
func (h *bundled) walk(ctx context.Context, root b3.Root, each func(readEntry) error) error {
	w := &bundleWalk{source: h, tree: h.gateway.Tree(ctx, root)}
	defer w.tree.Close()
	err := manifest.Walk(ctx, w.node, root, func(path string, e manifest.Entry) error {
		r := readEntry{path: path, entry: e}
		if e.Kind == manifest.File {
			p, ok, err := w.object(e.Root, e.Size)
			if err != nil {
				return err
			}
			if ok {
				r.data = &fileBytes{*bytes.NewBuffer(p)}
			}
		}
		return each(r)
	})
	switch {
	case errors.Is(err, verified.ErrNoBundle):
		return h.readAhead.walk(ctx, root, each)
	case err != nil || w.lost:
		return err
	}
	if err := w.tree.End(); status.Of(err) == status.Corrupt {
		return err
	}
	return nil // all objects are proved, wherever the end of the bundle is
}

// bundleWalk is a walk of a directory whose objects come out of a bundle.
type bundleWalk struct {
	source *bundled
	tree   *verified.Tree
	begun  bool // an object came
	lost   bool // the bundle was cut and cannot be had again: the rest is asked for one by one
}

// object returns the next object, or ok false if it has to be asked for alone.
func (w *bundleWalk) object(root b3.Root, size int64) (p []byte, ok bool, err error) {
	if w.lost {
		return nil, false, nil
	}
	p, ok, err = w.tree.Object(root, size)
	switch {
	case err == nil:
		w.begun = true
		return p, ok, nil
	case status.Of(err) == status.Corrupt:
		return nil, false, err
	case !w.begun:
		return nil, false, errors.Join(verified.ErrNoBundle, err)
	}
	w.lost = true
	return nil, false, nil
}

// node returns a manifest.
func (w *bundleWalk) node(ctx context.Context, root b3.Root) ([]byte, error) {
	p, ok, err := w.object(root, -1)
	if err != nil || ok {
		return p, err
	}
	return opener.Manifests(w.source)(ctx, root)
}
