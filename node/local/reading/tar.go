package reading

import (
	"archive/tar"
	"context"
	"io"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Files implements api.Reader.
func (a *Reader) Files(ctx context.Context, roots []b3.Root) (*api.Stream, error) {
	if err := api.CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	o := api.Object{Root: roots[0], Kind: api.Directory}
	return &api.Stream{Object: o, Body: newBody(ctx, func(ctx context.Context, w io.Writer) error {
		if err := a.opt.Source.fetchFiles(ctx, roots); err != nil {
			return err
		}
		tw := tar.NewWriter(w)
		if err := a.opt.Source.files(ctx, roots,
			func(r readEntry) error { return a.writeFile(ctx, tw, r) }); err != nil {
			return err
		}
		return tw.Close()
	}, nil)}, nil
}

// writeFile writes one file to tw, named by its digest.
func (a *Reader) writeFile(ctx context.Context, tw *tar.Writer, r readEntry) error {
	c, err := a.opt.Source.openFile(ctx, r)
	if err != nil {
		return err
	}
	defer c.Close()
	h := &tar.Header{
		Name: r.entry.Root.Hex(), Typeflag: tar.TypeReg, Mode: 0o644, Size: c.Size(), Format: tar.FormatPAX,
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	return c.Copy(ctx, tw, 0, c.Size())
}

// writeTree writes the directory root as a tar. Its first entry is "./", the
// directory itself.
func (a *Reader) writeTree(ctx context.Context, w io.Writer, root b3.Root) error {
	tw := tar.NewWriter(w)
	top := &tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatPAX}
	if err := tw.WriteHeader(top); err != nil {
		return err
	}
	err := a.opt.Source.walk(ctx, root, func(r readEntry) error { return a.writeEntry(ctx, tw, r) })
	if err != nil {
		return err
	}
	return tw.Close()
}

// writeEntry writes one entry of a directory to tw.
func (a *Reader) writeEntry(ctx context.Context, tw *tar.Writer, r readEntry) error {
	name, e := r.path, r.entry
	h := &tar.Header{Name: name, Mode: 0o644, Format: tar.FormatPAX}
	switch e.Kind {
	case manifest.Directory:
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
		return tw.WriteHeader(h)
	case manifest.Link:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
		return tw.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, e.Size
	if e.Executable {
		h.Mode = 0o755
	}
	c, err := a.opt.Source.openFile(ctx, r)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Size() != e.Size { // a manifest may state a false size
		return status.Errorf(status.Corrupt,
			"%s: the directory says %d bytes, %s has %d", name, e.Size, e.Root, c.Size())
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	return c.Copy(ctx, tw, 0, c.Size())
}
