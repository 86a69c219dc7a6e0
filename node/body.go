package node

import (
	"archive/tar"
	"context"
	"io"
	"sync"

	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// body is a stream whose bytes come from a function that writes them. Copying
// it with WriteTo runs the function on the caller's goroutine; Read runs it on
// one of the body's own, which Close joins.
type body struct {
	ctx    context.Context
	cancel context.CancelFunc
	write  func(context.Context, io.Writer) error
	close  func() error // may be nil

	once sync.Once
	wg   sync.WaitGroup
	pipe *io.PipeReader
}

func newBody(ctx context.Context, write func(context.Context, io.Writer) error, close func() error) *body {
	ctx, cancel := context.WithCancel(ctx)
	return &body{ctx: ctx, cancel: cancel, write: write, close: close}
}

// WriteTo writes everything to w. It is called at most once, and not with Read.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	c := &countingWriter{w: w}
	err := b.write(b.ctx, c)
	return c.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (b *body) Read(p []byte) (int, error) {
	b.once.Do(func() {
		r, w := io.Pipe()
		b.pipe = r
		b.wg.Go(func() { // Read returns the error
			_ = w.CloseWithError(supervise.Guard(func() error { return b.write(b.ctx, w) }))
		})
	})
	return b.pipe.Read(p)
}

// Close ends the stream, whether or not it was read to its end.
func (b *body) Close() error {
	b.cancel()
	if b.pipe != nil {
		_ = b.pipe.Close()
	}
	b.wg.Wait()
	if b.close != nil {
		return b.close()
	}
	return nil
}

// writeTree writes the directory root as a tar stream whose first entry is
// "./", the directory itself.
func (a *storeAPI) writeTree(ctx context.Context, w io.Writer, root b3.Root) error {
	tw := tar.NewWriter(w)
	if err := tw.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatPAX}); err != nil {
		return err
	}
	each := func(r early) error { return a.writeEntry(ctx, tw, r) }
	var err error
	if a.ahead != nil {
		err = a.ahead.walk(ctx, a.getter(), root, each)
	} else {
		err = manifest.Walk(ctx, a.getter(), root, func(path string, e manifest.Entry) error {
			return each(early{path: path, entry: e})
		})
	}
	if err != nil {
		return err
	}
	return tw.Close()
}

func (a *storeAPI) writeEntry(ctx context.Context, tw *tar.Writer, r early) error {
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
	c, err := a.openFile(ctx, r)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Size() != e.Size { // what a manifest says of sizes is its author's claim
		return status.Errorf(status.Corrupt, "%s: the directory says %d bytes, %s has %d", name, e.Size, e.Root, c.Size())
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	return c.Copy(ctx, tw, 0, c.Size())
}
