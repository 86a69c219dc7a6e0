// Package opener opens objects for the gateway and the local API. It has three openers:
// [Local] for objects in the store, [Found] for objects in the store or with peers, and
// [Through] for objects behind a gateway that need not be trusted.
//
// Invariants: every byte that is written out is verified against the root that was asked
// for. Damage in the store is reported to the store, and a failing destination is never
// taken for damage.
//
// One request, step by step: the gateway calls [Found.Open]. If the store has the whole
// object, Open returns it from Local. Otherwise the resolver finds peers that have it, and
// Open returns a remoteContent. Copy then writes the bytes of a range as they arrive, and
// Encode writes them with their proof. The caller closes the content.
package opener

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
)

// Local opens objects of a store and nothing else.
type Local struct{ Store *store.Store }

// Open implements content.Opener.
func (l Local) Open(ctx context.Context, root b3.Root, _ content.OpenOptions) (content.Content, error) {
	o, err := l.Store.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return &localContent{store: l.Store, o: o}, nil
}

// Memory implements content.Objects.
func (l Local) Memory(root b3.Root) []byte { return l.Store.Memory(root) }

// Cached implements content.Objects.
func (l Local) Cached(root b3.Root) bool { return l.Store.Cached(root) }

// copyTo copies a source to w until ctx ends, and returns how many bytes w took. It returns an
// error of the source as readErr, and one of the destination or the end of ctx as writeErr. At most
// one of the two is set.
func copyTo(ctx context.Context, w io.Writer, from io.WriterTo) (n int64, readErr, writeErr error) {
	to := &writerCtx{ctx: ctx, w: w}
	_, err := from.WriteTo(to)
	var we writeError
	if errors.As(err, &we) {
		return to.n, nil, we.err
	}
	return to.n, err, nil
}

// writerCtx is a writer that fails once ctx has ended. It marks every error as a writeError, to tell it from an error
// of the source.
type writerCtx struct {
	ctx context.Context
	w   io.Writer
	n   int64 // bytes written
}

func (w *writerCtx) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, writeError{err}
	}
	n, err := w.w.Write(p)
	w.n += int64(n)
	if err != nil {
		return n, writeError{err}
	}
	return n, nil
}

type writeError struct{ err error }

func (e writeError) Error() string { return fmt.Sprintf("write: %v", e.err) }

// Manifests returns a function that reads one verified manifest node. A node of more than
// manifest.MaxNode bytes is status.BadRequest.
func Manifests(objects content.Opener) manifest.Getter { return manifests(objects, false) }

// LocalManifests is Manifests of the store alone: a node that it does not have is status.NotFound.
func LocalManifests(objects content.Opener) manifest.Getter { return manifests(objects, true) }

func manifests(objects content.Opener, local bool) manifest.Getter {
	return func(ctx context.Context, root b3.Root) ([]byte, error) {
		c, err := objects.Open(ctx, root, content.OpenOptions{LocalOnly: local})
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
