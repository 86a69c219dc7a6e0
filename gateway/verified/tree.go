package verified

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"allium/gateway/verified/bundle"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// ErrNoBundle reports that a gateway does not send a directory as a bundle: it is older, the directory is too large for
// it, or it does not have all manifests. The caller asks for the objects one by one.
var ErrNoBundle = errors.New("the gateway sends no bundle of the directory")

// Tree reads the objects of a directory in the order of manifest.Walk, out of one answer of a gateway. After a cut
// connection it requests the rest, from the first object on that was not returned. It is not safe for concurrent use.
//
// It holds one object of up to [bundle.MaxBody] bytes, and returns it when all of it is proved.
type Tree struct {
	ctx    context.Context
	g      *Gateway
	root   b3.Root
	number uint32 // of the next object
	tries  int    // attempts in a row without an object

	resp  *http.Response
	r     *bundle.Reader
	stall *time.Timer
	due   time.Time
}

// Tree returns a Tree of the directory root. It requests nothing yet. ctx limits it until the caller closes it.
func (g *Gateway) Tree(ctx context.Context, root b3.Root) *Tree {
	return &Tree{ctx: ctx, g: g, root: root}
}

// Object returns the next object of the walk, which is root and has size bytes, −1 if unknown. ok is false if the
// object has to be asked for alone. Bytes that fail the proof are corrupt. The error is ErrNoBundle if the gateway
// gives no bundle to begin with.
func (t *Tree) Object(root b3.Root, size int64) (p []byte, ok bool, err error) {
	err = t.try(func() error {
		p, ok, err = t.r.Object(t.number, root, size)
		return err
	})
	if err == nil {
		t.number++
		t.tries = 0
	}
	return p, ok, err
}

// End reads the end of the bundle after the last object. It returns corrupt if that is false.
func (t *Tree) End() error {
	return t.try(func() error { return t.r.End(t.number) })
}

// try reads from the bundle, and requests the rest of it when it is cut.
func (t *Tree) try(read func() error) error {
	for {
		err := t.open()
		if err == nil {
			t.due = time.Now().Add(proofTimeout)
			t.stall.Reset(stallTimeout)
			err = read()
			t.stall.Stop() // what the caller does with the object is no stall
			if err == nil {
				return nil
			}
			if status.Of(err) == status.Corrupt {
				_ = t.Close()
				return status.Errorf(status.Corrupt, "%s sent what is not %s; ask another gateway: %w",
					t.g.base.Host, t.root, err)
			}
			err = t.g.failure(t.ctx, err)
		}
		_ = t.Close()
		if errors.Is(err, ErrNoBundle) {
			return err
		}
		t.tries++
		if err = pause(t.ctx, t.tries, 0, err); err != nil {
			return err
		}
	}
}

// open requests the bundle from the next object on, unless one arrives.
func (t *Tree) open() error {
	if t.resp != nil {
		return nil
	}
	path := "/b3/" + t.root.String() + "/?format=bundle"
	if t.number > 0 {
		path += fmt.Sprintf("&objects=%d-", t.number)
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	resp, err := t.g.do(ctx, http.MethodGet, path, http.Header{"Accept": {bundle.MediaType}}, nil, 0)
	if err != nil {
		cancel(nil)
		retry := status.Of(err).Retry()
		if retry != status.RetryYes && retry != status.RetryAfter && t.ctx.Err() == nil {
			err = errors.Join(ErrNoBundle, err)
		}
		return err
	}
	resp.Body = &cancelOnClose{resp.Body, cancel}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != bundle.MediaType || resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return ErrNoBundle
	}
	t.resp, t.stall = resp, stallTimer(cancel)
	t.r = bundle.NewReader(t.root, &stallReader{resp.Body, t.stall, &t.due})
	return nil
}

// Close ends the transfer. It may be called again and returns nil.
func (t *Tree) Close() error {
	if t.resp != nil {
		t.stall.Stop()
		_ = t.resp.Body.Close()
		t.resp = nil
	}
	return nil
}
