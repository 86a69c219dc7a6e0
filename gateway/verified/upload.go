package verified

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Deadlines of an upload that was sent to its end: the gateway verifies it and
// makes it durable.
const (
	storeTimeout  = 10 * time.Minute
	removeTimeout = 5 * time.Second // of giving an upload up
)

// PutOptions modify Put and Upload.
type PutOptions struct {
	NoPin    bool             // leave the object to the cache
	Label    string           // of the pin
	Progress api.ProgressFunc // may be nil; called from any goroutine, one at a time
}

func (o PutOptions) path(path string) string {
	q := url.Values{"pin": {strconv.FormatBool(!o.NoPin)}}
	if o.Label != "" {
		q.Set("label", o.Label)
	}
	return path + "?" + q.Encode()
}

// Put stores what r gives, to its end, in one request; size is −1 where it is
// not known. It cannot be sent again when it is cut. The address is worked out
// here, and an answer that names another one is upstream.
func (g *Gateway) Put(ctx context.Context, r io.Reader, size int64, o PutOptions) (api.Stored, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := newOutgoing(r, cancel, 0, size, o.Progress)
	b.h = b3.NewHasher(nil, 1)
	defer b.end()
	resp, err := g.do(ctx, http.MethodPost, o.path("/o"), http.Header{"Content-Type": {"application/octet-stream"}}, b, size)
	if err != nil {
		return api.Stored{}, b.because(err)
	}
	defer resp.Body.Close()
	root, n, err := b.sum()
	if err != nil {
		return api.Stored{}, err
	}
	return g.stored(resp, root, n)
}

// Upload stores the first size bytes of r, in a request that is resumed where it
// was cut: at most three times in a row without progress, and eight while the
// gateway has not noticed the cut. The address is worked
// out first, so that what the gateway has is not sent; an answer that names
// another one is upstream.
func (g *Gateway) Upload(ctx context.Context, r io.ReaderAt, size int64, o PutOptions) (api.Stored, error) {
	h := b3.NewHasher(nil, 1)
	if _, err := h.ReadFrom(alive{ctx, io.NewSectionReader(r, 0, size)}); err != nil {
		h.Reset(nil)
		return api.Stored{}, err
	}
	root, n, err := h.Sum()
	switch {
	case err != nil:
		return api.Stored{}, err
	case n != size:
		return api.Stored{}, status.Errorf(status.Conflict, "%d bytes are left of %d: what is uploaded became shorter meanwhile; try again", n, size)
	}
	u := &upload{g: g, r: r, size: size, root: root, o: o}
	s, err := u.run(ctx)
	if err != nil && u.path != "" {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if resp, err := g.do(gone, http.MethodDelete, u.path, nil, nil, 0); err == nil { // else it expires
			_ = resp.Body.Close()
		}
	}
	return s, err
}

// alive is a reader that ends with its context.
type alive struct {
	ctx context.Context
	r   io.Reader
}

func (a alive) Read(p []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, context.Cause(a.ctx)
	}
	return a.r.Read(p)
}

// upload is an upload in pieces under way.
type upload struct {
	g     *Gateway
	r     io.ReaderAt
	size  int64
	root  b3.Root
	o     PutOptions
	path  string // of the upload; empty before it is begun
	at    int64  // bytes that the gateway has
	most  int64  // that at ever was
	tries int    // failures since most grew
	held  int    // of them, that another piece is being written
}

// maxHeld is how often a piece is sent again that the gateway refuses since it
// still waits for more of one that was cut: with the pauses, longer than the 5 s
// in which it notices.
const maxHeld = 8

// run goes on until the object is stored.
func (u *upload) run(ctx context.Context) (api.Stored, error) {
	for {
		s, done, err := u.step(ctx)
		switch {
		case done:
			return s, nil
		case err == nil:
			u.grown()
			continue
		case status.Of(err) == status.Conflict && u.path != "":
			if u.held++; u.held <= maxHeld {
				u.tries-- // below
			}
			err = status.Errorf(status.TransportDown, "%w", err)
		}
		if o := status.Of(err); u.path != "" && (o == status.NotFound || o == status.Gone) { // the gateway has forgotten it
			u.path, u.at = "", 0
			err = status.Errorf(status.TransportDown, "the gateway has lost the upload: %w", err)
		}
		u.tries++
		if err := pause(ctx, u.tries, u.held, err); err != nil {
			return api.Stored{}, err
		}
		if u.path != "" {
			u.look(ctx)
		}
	}
}

// step begins the upload or sends what is missing of it.
func (u *upload) step(ctx context.Context) (_ api.Stored, done bool, err error) {
	if u.path == "" {
		return u.begin(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := newOutgoing(io.NewSectionReader(u.r, u.at, u.size-u.at), cancel, u.at, u.size, u.o.Progress)
	defer b.end()
	resp, err := u.g.do(ctx, http.MethodPatch, u.path, http.Header{
		"Content-Type":  {"application/offset+octet-stream"},
		"Upload-Offset": {strconv.FormatInt(u.at, 10)},
	}, b, u.size-u.at)
	if err != nil {
		return api.Stored{}, false, b.because(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		s, err := u.g.stored(resp, u.root, u.size)
		return s, err == nil, err
	}
	return api.Stored{}, false, u.offset(resp)
}

// begin begins the upload, unless the gateway has the object.
func (u *upload) begin(ctx context.Context) (_ api.Stored, done bool, err error) {
	resp, err := u.g.do(ctx, http.MethodPost, u.o.path("/u"), http.Header{
		"Upload-Length": {strconv.FormatInt(u.size, 10)},
		"Upload-Expect": {u.root.String()},
	}, nil, 0)
	if err != nil {
		return api.Stored{}, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		s, err := u.g.stored(resp, u.root, u.size)
		return s, err == nil, err
	}
	path := resp.Header.Get("Location")
	if id, ok := strings.CutPrefix(path, "/u/"); resp.StatusCode != http.StatusCreated || !ok || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return api.Stored{}, false, status.Errorf(status.Upstream, "%s began no upload but answered %d; it is no allium gateway, or an older one", u.g.base.Host, resp.StatusCode)
	}
	u.path = path
	return api.Stored{}, false, nil
}

// look asks how far the upload is. What it does not learn the next piece will.
func (u *upload) look(ctx context.Context) {
	resp, err := u.g.do(ctx, http.MethodHead, u.path, nil, nil, 0)
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	if u.offset(resp) == nil {
		u.grown()
	}
}

// grown begins to count failures again if the gateway has more than it ever had:
// one that begins again and again is not sent the same for ever.
func (u *upload) grown() {
	if u.at > u.most {
		u.most, u.tries, u.held = u.at, 0, 0
	}
}

// offset takes how far the gateway says that the upload is.
func (u *upload) offset(resp *http.Response) error {
	at, err := strconv.ParseInt(resp.Header.Get("Upload-Offset"), 10, 64)
	if err != nil || at < 0 || at > u.size {
		return status.Errorf(status.Upstream, "%s says that %q bytes of %d were uploaded", u.g.base.Host, printable(resp.Header.Get("Upload-Offset")), u.size)
	}
	if at <= u.at && resp.Request.Method == http.MethodPatch {
		return status.Errorf(status.TransportDown, "%s took nothing of a piece that it said it took", u.g.base.Host)
	}
	u.at = at
	return nil
}

// stored reads the answer about an object that has to be this one.
func (g *Gateway) stored(resp *http.Response, root b3.Root, size int64) (api.Stored, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return api.Stored{}, g.failure(resp.Request.Context(), err)
	}
	var s api.Stored
	switch err := json.Unmarshal(raw, &s); {
	case err != nil:
		return api.Stored{}, status.Errorf(status.Upstream, "%s answered what this version of allium does not expect: %w", g.base.Host, err)
	case s.Root != root || s.Size != size:
		return api.Stored{}, status.Errorf(status.Upstream, "%s says that it stored %s of %d bytes, and it was sent %s of %d; use another gateway", g.base.Host, s.Root, s.Size, root, size)
	}
	return s, nil
}

// outgoing is a body that is hashed as it is sent. Who takes nothing of it for
// stallTimeout is given up, and so is who does not answer within storeTimeout of
// its end. net/http may read it for a moment after it has returned the answer.
type outgoing struct {
	r        io.Reader
	stall    *time.Timer
	progress api.ProgressFunc
	total    int64 // bytes of the object; −1: not known

	mu    sync.Mutex // guards the rest
	h     *b3.Hasher // nil: not hashed, or not any more
	at    int64      // how far in the object it is
	whole bool
	err   error // of r
}

func newOutgoing(r io.Reader, cancel context.CancelCauseFunc, from, total int64, progress api.ProgressFunc) *outgoing {
	b := &outgoing{r: r, at: from, total: total, progress: progress}
	b.stall = time.AfterFunc(stallTimeout, func() {
		cancel(status.Errorf(status.Timeout, "the gateway took nothing of the upload for %s, or did not answer within %s of its end", stallTimeout, storeTimeout))
	})
	return b
}

func (b *outgoing) Read(p []byte) (int, error) {
	b.stall.Stop() // waiting for r is not the gateway's fault
	n, err := b.r.Read(p)
	at, err := b.took(p[:n], err)
	if b.progress != nil {
		b.progress(api.Progress{Bytes: at, TotalBytes: max(b.total, 0)})
	}
	if errors.Is(err, io.EOF) {
		b.stall.Reset(storeTimeout)
	} else {
		b.stall.Reset(stallTimeout)
	}
	return n, err
}

// took counts what r gave.
func (b *outgoing) took(p []byte, err error) (at int64, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.h != nil {
		if _, failed := b.h.Write(p); failed != nil && err == nil {
			err = failed
		}
	}
	b.at += int64(len(p))
	switch {
	case errors.Is(err, io.EOF), b.at == b.total:
		b.whole = true
	case err != nil:
		b.err = err
	}
	return b.at, err
}

// because is why the request failed: with what r ended with, if it did.
func (b *outgoing) because(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return err
}

// sum is the address of what was sent, all of it.
func (b *outgoing) sum() (b3.Root, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole {
		return b3.Root{}, 0, status.Errorf(status.Upstream, "the gateway answered after %d bytes, before it had them all", b.at)
	}
	h := b.h
	b.h = nil
	return h.Sum()
}

// end is called when no more is sent.
func (b *outgoing) end() {
	b.stall.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.h != nil {
		b.h.Reset(nil) // joins what it has running
		b.h = nil
	}
}
