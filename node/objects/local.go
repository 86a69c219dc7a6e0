// Package objects opens objects for the gateway and the local API: those in the
// store, those that peers have, and those behind a gateway that need not be
// trusted.
package objects

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
)

// Local opens what is in a store and nothing else.
type Local struct{ Store *store.Store }

// Open implements content.Opener.
func (l Local) Open(ctx context.Context, root b3.Root, _ content.OpenOptions) (content.Content, error) {
	o, err := l.Store.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return localContent{o}, nil
}

// Memory implements content.Objects.
func (l Local) Memory(root b3.Root) []byte { return l.Store.Memory(root) }

// localContent is a stored object as the gateway reads it.
type localContent struct{ o *store.Object }

func (c localContent) Size() int64  { return c.o.Size() }
func (c localContent) Close() error { return c.o.Close() }

// Copy writes verified bytes; a damaged group ends it before a byte of it is
// written, and the object is not served again.
func (c localContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	s := c.o.Reader().Section(start, end)
	defer s.Close()
	readErr, writeErr := transfer(ctx, w, s)
	return cmp.Or(writeErr, c.o.Failed(readErr))
}

// Encode is Copy with the proof; damage is told to the store as there.
func (c localContent) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	e, err := bao.NewEncoder(c.o.Reader(), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	readErr, writeErr := transfer(ctx, w, e)
	return cmp.Or(writeErr, c.o.Failed(readErr))
}

// transfer copies from to w until ctx ends. It returns what went wrong with the
// source apart from what went wrong with the destination, which the end of ctx
// counts as; at most one of the two is not nil.
func transfer(ctx context.Context, w io.Writer, from io.WriterTo) (readErr, writeErr error) {
	_, err := from.WriteTo(writerCtx{ctx, w})
	var we writeError
	if errors.As(err, &we) {
		return nil, we.err
	}
	return err, nil
}

// writerCtx ends a copy when its context does, and marks the errors of the
// destination so that they are not taken for the store's.
type writerCtx struct {
	ctx context.Context
	w   io.Writer
}

func (w writerCtx) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, writeError{err}
	}
	n, err := w.w.Write(p)
	if err != nil {
		return n, writeError{err}
	}
	return n, nil
}

type writeError struct{ err error }

func (e writeError) Error() string { return fmt.Sprintf("write: %v", e.err) }

// Manifests reads manifest nodes, verified and at most manifest.MaxNode bytes.
func Manifests(objects content.Opener) manifest.Getter {
	return func(ctx context.Context, root b3.Root) ([]byte, error) {
		c, err := objects.Open(ctx, root, content.OpenOptions{})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		if c.Size() > manifest.MaxNode {
			return nil, status.Errorf(status.BadRequest, "%s is not a directory: it has %d bytes", root, c.Size())
		}
		var b bytes.Buffer
		b.Grow(int(c.Size()))
		if err := c.Copy(ctx, &b, 0, c.Size()); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
}
