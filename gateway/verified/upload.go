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

// The timeouts of an upload.
const (
	storeTimeout  = 10 * time.Minute // for the gateway to verify and store it, after its last byte
	removeTimeout = 5 * time.Second  // for removing a failed upload
)

// PutOptions modify Put and Upload.
type PutOptions struct {
	NoPin    bool             // do not pin the object, so the cache may evict it
	Label    string           // label of the pin
	Progress api.ProgressFunc // may be nil; called from any goroutine, one at a time
}

func (o PutOptions) path(path string) string {
	q := url.Values{"pin": {strconv.FormatBool(!o.NoPin)}}
	if o.Label != "" {
		q.Set("label", o.Label)
	}
	return path + "?" + q.Encode()
}

// Put stores the bytes of r up to io.EOF in one request, which cannot be resumed. size is their
// number, −1 if unknown. Put computes the address itself. It returns upstream if the gateway
// answers with another one.
func (g *Gateway) Put(ctx context.Context, r io.Reader, size int64, o PutOptions) (api.Stored, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := newUploadBody(r, cancel, 0, size, o.Progress)
	b.h = b3.NewHasher(nil, 1)
	defer b.end()
	resp, err := g.do(ctx, http.MethodPost, o.path("/o"), http.Header{"Content-Type": {"application/octet-stream"}}, b,
		size)
	if err != nil {
		return api.Stored{}, b.cause(err)
	}
	defer resp.Body.Close()
	root, n, err := b.sum()
	if err != nil {
		return api.Stored{}, err
	}
	return g.stored(resp, root, n)
}

// PutTree stores the directory in a tar, in one request, which cannot be resumed. The names in the tar are
// relative to the directory. It does not check the address in the answer: the caller, which made the tar,
// does.
func (g *Gateway) PutTree(ctx context.Context, tar io.Reader, o PutOptions) (api.Added, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := newUploadBody(tar, cancel, 0, -1, o.Progress)
	defer b.end()
	resp, err := g.do(ctx, http.MethodPost, o.path("/b3"), http.Header{"Content-Type": {"application/x-tar"}}, b, -1)
	if err != nil {
		return api.Added{}, b.cause(err)
	}
	defer resp.Body.Close()
	var added api.Added
	return added, g.decode(resp, &added)
}

// decode reads the JSON of an answer into v.
func (g *Gateway) decode(resp *http.Response, v any) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return g.failure(resp.Request.Context(), err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return status.Errorf(status.Upstream, "%s answered what this version of allium does not expect: %w",
			g.base.Host, err)
	}
	return nil
}

// Upload stores the first size bytes of r. It resumes a cut upload, at most three times in a row without progress, and
// up to eight more while the gateway has not noticed the cut. It computes the address first, and sends nothing if the
// gateway has the object. It returns upstream if the gateway answers with another address.
func (g *Gateway) Upload(ctx context.Context, r io.ReaderAt, size int64, o PutOptions) (api.Stored, error) {
	h := b3.NewHasher(nil, 1)
	if _, err := h.ReadFrom(contextReader{ctx, io.NewSectionReader(r, 0, size)}); err != nil {
		h.Reset(nil)
		return api.Stored{}, err
	}
	root, n, err := h.Sum()
	switch {
	case err != nil:
		return api.Stored{}, err
	case n != size:
		return api.Stored{}, status.Errorf(status.Conflict,
			"%d bytes are left of %d: what is uploaded became shorter meanwhile; try again", n, size)
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

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (a contextReader) Read(p []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, context.Cause(a.ctx)
	}
	return a.r.Read(p)
}

// upload is a resumable upload in progress.
type upload struct {
	g         *Gateway
	r         io.ReaderAt
	size      int64
	root      b3.Root
	o         PutOptions
	path      string // URL path of the upload; empty before it starts
	at        int64  // bytes that the gateway has
	highest   int64  // the highest value of at
	tries     int    // failures since highest grew
	conflicts int    // conflicts since then
}

// maxConflicts bounds how often a part is sent again after conflict, which the gateway returns
// while it still waits for the rest of a cut part. With the pauses it takes longer than the 5 s
// in which the gateway notices the cut.
const maxConflicts = 8

// run sends parts until the object is stored or an error is final.
func (u *upload) run(ctx context.Context) (api.Stored, error) {
	for {
		s, done, err := u.step(ctx)
		switch {
		case done:
			return s, nil
		case err == nil:
			u.noteProgress()
			continue
		case status.Of(err) == status.Conflict && u.path != "":
			if u.conflicts++; u.conflicts <= maxConflicts {
				u.tries-- // the increment below does not count
			}
			err = status.Errorf(status.TransportDown, "%w", err)
		}
		// the gateway has forgotten it
		if o := status.Of(err); u.path != "" && (o == status.NotFound || o == status.Gone) {
			u.path, u.at = "", 0
			err = status.Errorf(status.TransportDown, "the gateway has lost the upload: %w", err)
		}
		u.tries++
		if err := pause(ctx, u.tries, u.conflicts, err); err != nil {
			return api.Stored{}, err
		}
		if u.path != "" {
			u.refreshOffset(ctx)
		}
	}
}

// step starts the upload or sends its missing bytes.
func (u *upload) step(ctx context.Context) (_ api.Stored, done bool, err error) {
	if u.path == "" {
		return u.begin(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := newUploadBody(io.NewSectionReader(u.r, u.at, u.size-u.at), cancel, u.at, u.size, u.o.Progress)
	defer b.end()
	resp, err := u.g.do(ctx, http.MethodPatch, u.path, http.Header{
		"Content-Type":  {"application/offset+octet-stream"},
		"Upload-Offset": {strconv.FormatInt(u.at, 10)},
	}, b, u.size-u.at)
	if err != nil {
		return api.Stored{}, false, b.cause(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		s, err := u.g.stored(resp, u.root, u.size)
		return s, err == nil, err
	}
	return api.Stored{}, false, u.offset(resp)
}

// begin starts the upload. done is true if the gateway has the object.
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
	path := resp.Header.Get("Location") // below gateway.prefix, which the base does not have
	path = path[max(0, strings.LastIndex(path, "/u/")):]
	if id, ok := strings.CutPrefix(path, "/u/"); resp.StatusCode != http.StatusCreated || !ok || len(id) != 32 ||
		strings.Trim(id, "0123456789abcdef") != "" {
		return api.Stored{}, false, status.Errorf(status.Upstream,
			"%s began no upload but answered %d; it is no allium gateway, or an older one",
			u.g.base.Host, resp.StatusCode)
	}
	u.path = path
	return api.Stored{}, false, nil
}

// refreshOffset asks the gateway how many bytes it has. It ignores errors, because the next part
// meets them too.
func (u *upload) refreshOffset(ctx context.Context) {
	resp, err := u.g.do(ctx, http.MethodHead, u.path, nil, nil, 0)
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	if u.offset(resp) == nil {
		u.noteProgress()
	}
}

// noteProgress resets the count of failures if the gateway has more bytes than ever before. A
// gateway that loses the upload again and again does not reset it.
func (u *upload) noteProgress() {
	if u.at > u.highest {
		u.highest, u.tries, u.conflicts = u.at, 0, 0
	}
}

// offset sets at from the answer's Upload-Offset.
func (u *upload) offset(resp *http.Response) error {
	at, err := strconv.ParseInt(resp.Header.Get("Upload-Offset"), 10, 64)
	if err != nil || at < 0 || at > u.size {
		return status.Errorf(status.Upstream, "%s says that %q bytes of %d were uploaded", u.g.base.Host,
			printable(resp.Header.Get("Upload-Offset")), u.size)
	}
	if at <= u.at && resp.Request.Method == http.MethodPatch {
		return status.Errorf(status.TransportDown, "%s took nothing of a piece that it said it took", u.g.base.Host)
	}
	u.at = at
	return nil
}

// stored parses the answer to a complete upload. It returns upstream if the answer names another
// object.
func (g *Gateway) stored(resp *http.Response, root b3.Root, size int64) (api.Stored, error) {
	var s api.Stored
	if err := g.decode(resp, &s); err != nil {
		return api.Stored{}, err
	}
	if s.Root != root || s.Size != size {
		return api.Stored{}, status.Errorf(status.Upstream,
			"%s says that it stored %s of %d bytes, and it was sent %s of %d; use another gateway",
			g.base.Host, s.Root, s.Size,
			root, size)
	}
	return s, nil
}

// uploadBody is a request body that is hashed while it is sent. It cancels the request if the
// gateway takes nothing for stallTimeout, or does not answer within storeTimeout of the last
// byte. net/http may read it for a moment after the answer.
type uploadBody struct {
	r        io.Reader
	stall    *time.Timer
	progress api.ProgressFunc
	total    int64 // bytes of the object; −1: not known

	// lock: held across I/O and waits, because the bytes are hashed in their order, by goroutines that
	// hold no lock
	mu    sync.Mutex // guards the rest; lock: metadata
	h     *b3.Hasher // nil: not hashed, or the sum was taken
	at    int64      // position in the object
	whole bool       // every byte was read
	err   error      // the error of r
}

func newUploadBody(r io.Reader, cancel context.CancelCauseFunc, from, total int64,
	progress api.ProgressFunc) *uploadBody {
	b := &uploadBody{r: r, at: from, total: total, progress: progress}
	b.stall = time.AfterFunc(stallTimeout, func() {
		cancel(status.Errorf(status.Timeout,
			"the gateway took nothing of the upload for %s, or did not answer within %s "+
				"of its end", stallTimeout, storeTimeout))
	})
	return b
}

func (b *uploadBody) Read(p []byte) (int, error) {
	b.stall.Stop() // a slow r is not a stalled gateway
	n, err := b.r.Read(p)
	at, err := b.advance(p[:n], err)
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

// advance hashes and counts the bytes that r returned.
func (b *uploadBody) advance(p []byte, err error) (at int64, _ error) {
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

// cause returns why the request failed: the error of r if there is one, else err.
func (b *uploadBody) cause(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return err
}

// sum returns the address and the length of the whole body.
func (b *uploadBody) sum() (b3.Root, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole {
		return b3.Root{}, 0, status.Errorf(status.Upstream,
			"the gateway answered after %d bytes, before it had them all",
			b.at)
	}
	h := b.h
	b.h = nil
	return h.Sum()
}

// end releases the hasher and the timer. The caller calls it once after the request.
func (b *uploadBody) end() {
	b.stall.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.h != nil {
		b.h.Reset(nil) // joins what it has running
		b.h = nil
	}
}
