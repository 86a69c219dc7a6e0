package verified

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"time"

	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// The limits of retries (SPEC §2). A request is sent at most maxTries times in a row without a
// proved byte between them. The wait doubles from minWait, with jitter, to maxWait.
const (
	maxTries = 3
	minWait  = 50 * time.Millisecond
	maxWait  = 2 * time.Second
)

// Download reads a range of an object through a gateway. It verifies each byte against the address
// before it returns it. After a cut connection it requests the rest, from the last proved group
// on. It is not safe for concurrent use.
//
// Bytes that fail the proof are corrupt and end the Download. Read returns io.EOF only after the
// last byte of the range.
type Download struct {
	ctx    context.Context
	g      *Gateway
	root   b3.Root
	r      b3.Range // the rest of the range, after the first answer
	size   int64    // as the first answer claims
	proved bool

	resp  *http.Response
	dec   *bao.Decoder
	stall *time.Timer
	due   time.Time // when the next group must be proved
	tries int       // attempts in a row without a proved byte
	err   error
}

// Get requests the bytes [r.Start, r.End) of an object. An r.End of −1 is the object's end, and a
// negative r.Start then counts from the end, which the gateway claims until the size is proved. A
// range past the end is cut off there. Get returns when an encoding begins to arrive. ctx limits
// the Download until the caller closes it.
func (g *Gateway) Get(ctx context.Context, root b3.Root, r b3.Range) (*Download, error) {
	if r.End < -1 || r.End >= 0 && (r.Start < 0 || r.Start >= r.End) {
		return nil, status.Errorf(status.BadRange,
			"bytes %d to %d are not a range: want 0 ≤ start < end, or end −1", r.Start, r.End)
	}
	d := &Download{ctx: ctx, g: g, root: root, r: r, size: -1}
	for {
		err := d.open()
		if err == nil {
			return d, nil
		}
		if err = d.waitForRetry(err); err != nil {
			return nil, err
		}
	}
}

// Size returns the object's size in bytes. proved is true once the last byte of the object was
// returned. Before that the size is a claim of the gateway.
func (d *Download) Size() (size int64, proved bool) { return d.size, d.proved }

// Offset returns the position in the object of the next byte that Read returns.
func (d *Download) Offset() int64 { return d.r.Start }

// Read implements [io.Reader].
func (d *Download) Read(p []byte) (int, error) {
	for d.err == nil {
		n, err := d.dec.Read(p)
		d.advance(n)
		if err == nil {
			return n, nil
		}
		d.err = d.resume(err)
	}
	return 0, d.err
}

// WriteTo implements [io.WriterTo], with one write for each group.
func (d *Download) WriteTo(w io.Writer) (total int64, err error) {
	to := &groupWriter{d: d, w: w}
	for d.err == nil {
		_, err := d.dec.WriteTo(to)
		if to.err != nil {
			return to.n, to.err
		}
		if err == nil {
			err = io.EOF
		}
		d.err = d.resume(err)
	}
	if errors.Is(d.err, io.EOF) {
		return to.n, nil
	}
	return to.n, d.err
}

// groupWriter writes proved groups to w. It remembers w's error, to tell it from the gateway's.
type groupWriter struct {
	d   *Download
	w   io.Writer
	n   int64
	err error
}

func (w *groupWriter) Write(p []byte) (int, error) {
	w.d.stall.Stop() // a slow writer is not a stalled gateway
	n, err := w.w.Write(p)
	w.n += int64(n)
	w.d.advance(n)
	w.d.stall.Reset(stallTimeout)
	w.err = err
	return n, err
}

// advance notes that n bytes were returned.
func (d *Download) advance(n int) {
	if n > 0 {
		d.r.Start += int64(n)
		d.tries = 0
		d.due = time.Now().Add(proofTimeout)
	}
	d.proved = d.proved || d.dec.SizeProved()
}

// Close ends the transfer. It may be called again and returns nil.
func (d *Download) Close() error {
	d.closeResponse()
	if d.err == nil {
		d.err = errDownloadClosed
	}
	return nil
}

var errDownloadClosed = errors.New("the download is closed")

func (d *Download) closeResponse() {
	if d.resp != nil {
		d.stall.Stop()
		_ = d.dec.Close()
		_ = d.resp.Body.Close() // the error of a body that was read has no meaning
		d.resp = nil
	}
}

// resume handles the error that ended an encoding. It returns nil after it requested the rest of
// the range, io.EOF at the end of the range, and any other error as the end of the Download.
func (d *Download) resume(err error) error {
	d.proved = d.proved || d.dec.SizeProved()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if status.Of(err) == status.Corrupt {
		return d.proofFailed(err)
	}
	err = d.g.failure(d.ctx, err)
	if d.r.Start == d.end() {
		return io.EOF // all bytes arrived before the cut
	}
	for {
		d.closeResponse()
		if err = d.waitForRetry(err); err != nil {
			return err
		}
		if err = d.open(); err == nil {
			return nil
		}
	}
}

// end returns the end of the range.
func (d *Download) end() int64 {
	if d.r.End < 0 || d.r.End > d.size {
		return d.size
	}
	return d.r.End
}

// waitForRetry counts a failed attempt and waits before the next. It returns err if a retry does
// not help or there were too many.
func (d *Download) waitForRetry(err error) error {
	d.tries++
	return pause(d.ctx, d.tries, 0, err)
}

// pause waits before a request is repeated. It failed with err, tries times in a row and more
// times that only lengthen the wait. pause returns err if a retry does not help or tries reached
// maxTries.
func pause(ctx context.Context, tries, more int, err error) error {
	retry := status.Of(err).Retry()
	if tries >= maxTries || retry != status.RetryYes && retry != status.RetryAfter || ctx.Err() != nil {
		return err
	}
	wait := min((minWait+rand.N(minWait))<<min(tries+more, 10), maxWait)
	var s *status.Error
	if errors.As(err, &s) && s.Limit != nil {
		wait = min(max(wait, s.Limit.RetryAfter), maxWait)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open requests the rest of the range.
func (d *Download) open() error {
	path := "/o/" + d.root.String() + "?format=bao"
	if d.r != (b3.Range{End: -1}) {
		path += "&bytes=" + rangeText(d.r)
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	//nolint:bodyclose // closeResponse closes it
	resp, err := d.g.do(ctx, http.MethodGet, path, http.Header{"Accept": {bao.MediaType}}, nil, 0)
	if err != nil {
		cancel(nil)
		return err
	}
	resp.Body = &cancelOnClose{resp.Body, cancel}
	d.resp = resp
	d.stall = stallTimer(cancel)
	d.due = time.Now().Add(proofTimeout)
	d.dec = bao.NewDecoder(d.root, d.r, &stallReader{resp.Body, d.stall, &d.due})
	size, err := d.begin(ctx)
	if err != nil {
		d.closeResponse()
		return err
	}
	d.size, d.r.Start = size, d.dec.Offset()
	return nil
}

// begin checks that the answer is an encoding of the object with the size of earlier answers.
func (d *Download) begin(ctx context.Context) (size int64, err error) {
	if t, _, _ := mime.ParseMediaType(d.resp.Header.Get("Content-Type")); t != bao.MediaType ||
		d.resp.StatusCode != http.StatusOK {
		return 0, status.Errorf(status.Upstream,
			"%s answered %d with %q instead of a verified encoding; it is no allium "+
				"gateway, or something between is",
			d.g.base.Host, d.resp.StatusCode, printable(d.resp.Header.Get("Content-Type")))
	}
	switch size, err = d.dec.Begin(); {
	case status.Of(err) == status.Corrupt:
		return 0, d.proofFailed(err)
	case err != nil:
		return 0, d.g.failure(ctx, err)
	case d.size >= 0 && d.size != size:
		return 0, status.Errorf(status.Corrupt, "%s said that %s has %d bytes, and now %d; ask another gateway",
			d.g.base.Host, d.root, d.size, size)
	}
	return size, nil
}

// proofFailed returns the error of bytes that failed the proof.
func (d *Download) proofFailed(err error) error {
	return status.Errorf(status.Corrupt, "%s sent what is not %s; ask another gateway: %w", d.g.base.Host, d.root, err)
}

// rangeText formats r for the query parameter range.
func rangeText(r b3.Range) string {
	s := strconv.FormatInt(r.Start, 10)
	switch {
	case r.Start < 0:
		return s
	case r.End < 0:
		return s + "-"
	}
	return s + "-" + strconv.FormatInt(r.End-1, 10)
}

// stallTimer returns a timer that cancels a request whose answer stalls.
func stallTimer(cancel context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(stallTimeout, func() {
		cancel(status.Errorf(status.Timeout,
			"nothing arrived for %s, or nothing that could be proved for %s", stallTimeout,
			proofTimeout))
	})
}

// stallReader resets the stall timer while bytes arrive, but never past the time when the next
// group is due.
type stallReader struct {
	r     io.Reader
	stall *time.Timer
	due   *time.Time
}

func (s *stallReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if n > 0 {
		s.stall.Reset(max(0, min(stallTimeout, time.Until(*s.due))))
	}
	return n, err
}

// Stat returns the size of an object in bytes, proved by its last group.
func (g *Gateway) Stat(ctx context.Context, root b3.Root) (int64, error) {
	d, err := g.Get(ctx, root, b3.Range{Start: -1, End: -1})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	if _, err := io.Copy(io.Discard, d); err != nil {
		return 0, err
	}
	size, _ := d.Size()
	return size, nil
}
