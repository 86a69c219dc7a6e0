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

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// Of a request that is sent again (SPEC §2): at most maxTries times in a row
// without a proved byte between them, after a wait that doubles.
const (
	maxTries  = 3
	leastWait = 50 * time.Millisecond // and up to twice as much
	mostWait  = 2 * time.Second
)

// Download is a range of an object that comes through a gateway: each byte was
// proved against the address before it is returned. What a cut connection did
// not bring is asked for again, from the last proved group on. It is not for
// concurrent use.
//
// Bytes that prove wrong are corrupt, and end it: a gateway that lies once is not
// asked again. Read returns io.EOF only after the last byte of the range.
type Download struct {
	ctx    context.Context
	g      *Gateway
	root   b3.Root
	r      api.Range // what is left, once the first answer is there
	size   int64     // as claimed by the first answer
	proved bool

	resp  *http.Response
	dec   *bao.Decoder
	stall *time.Timer
	due   time.Time // when something has to be proved again
	tries int       // in a row that brought nothing
	err   error
}

// Get asks for bytes [r.Start, r.End) of an object. An r.End of −1 is the
// object's end, and with it an r.Start below 0 counts from there, as the gateway
// claims until the size is proved; what lies past the end is cut off. It returns when an encoding begins to arrive; ctx governs
// the Download until it is closed.
func (g *Gateway) Get(ctx context.Context, root b3.Root, r api.Range) (*Download, error) {
	if r.End < -1 || r.End >= 0 && (r.Start < 0 || r.Start >= r.End) {
		return nil, status.Errorf(status.BadRange, "bytes %d to %d are not a range: want 0 ≤ start < end, or end −1", r.Start, r.End)
	}
	d := &Download{ctx: ctx, g: g, root: root, r: r, size: -1}
	for {
		err := d.open()
		if err == nil {
			return d, nil
		}
		if err = d.again(err); err != nil {
			return nil, err
		}
	}
}

// Size is the object's size and whether it was proved. It is proved when the
// last byte of the object was returned, and a claim of the gateway before that.
func (d *Download) Size() (size int64, proved bool) { return d.size, d.proved }

// Offset is where in the object the next byte is that Read returns.
func (d *Download) Offset() int64 { return d.r.Start }

// Read implements [io.Reader].
func (d *Download) Read(p []byte) (int, error) {
	for d.err == nil {
		n, err := d.dec.Read(p)
		d.took(n)
		if err == nil {
			return n, nil
		}
		d.err = d.goOn(err)
	}
	return 0, d.err
}

// WriteTo implements [io.WriterTo]: one write for every group.
func (d *Download) WriteTo(w io.Writer) (total int64, err error) {
	to := &writing{d: d, w: w}
	for d.err == nil {
		_, err := d.dec.WriteTo(to)
		if to.err != nil {
			return to.n, to.err
		}
		if err == nil {
			err = io.EOF
		}
		d.err = d.goOn(err)
	}
	if errors.Is(d.err, io.EOF) {
		return to.n, nil
	}
	return to.n, d.err
}

// writing is where a Download is copied to; its errors are told from the
// gateway's.
type writing struct {
	d   *Download
	w   io.Writer
	n   int64
	err error
}

func (w *writing) Write(p []byte) (int, error) {
	w.d.stall.Stop() // whoever takes the bytes may take its time
	n, err := w.w.Write(p)
	w.n += int64(n)
	w.d.took(n)
	w.d.stall.Reset(stallTimeout)
	w.err = err
	return n, err
}

// took notes n bytes that were returned.
func (d *Download) took(n int) {
	if n > 0 {
		d.r.Start += int64(n)
		d.tries = 0
		d.due = time.Now().Add(proofTimeout)
	}
	d.proved = d.proved || d.dec.SizeProved()
}

// Close ends the transfer. It is idempotent and returns nil.
func (d *Download) Close() error {
	d.hangUp()
	if d.err == nil {
		d.err = errDownloadClosed
	}
	return nil
}

var errDownloadClosed = errors.New("verified: the download is closed")

func (d *Download) hangUp() {
	if d.resp != nil {
		d.stall.Stop()
		_ = d.dec.Close()
		_ = d.resp.Body.Close() // it was only read
		d.resp = nil
	}
}

// goOn takes the error that an encoding ended with: io.EOF is returned, and nil
// when what is missing is on its way.
func (d *Download) goOn(err error) error {
	d.proved = d.proved || d.dec.SizeProved()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if status.Of(err) == status.Corrupt {
		return d.lied(err)
	}
	err = d.g.failure(d.ctx, err)
	if d.r.Start == d.end() {
		return io.EOF // only the end of the answer was lost
	}
	for {
		d.hangUp()
		if err = d.again(err); err != nil {
			return err
		}
		if err = d.open(); err == nil {
			return nil
		}
	}
}

// end is where the range ends.
func (d *Download) end() int64 {
	if d.r.End < 0 || d.r.End > d.size {
		return d.size
	}
	return d.r.End
}

// again waits before a request is sent again, or returns err, with which there
// is no sense in that or which came too often.
func (d *Download) again(err error) error {
	d.tries++
	return pause(d.ctx, d.tries, 0, err)
}

// pause waits before a request is sent again that failed with err for the
// tries-th time in a row, and as often as more says without counting that. It
// returns err when there is no sense in that, or it came too often.
func pause(ctx context.Context, tries, more int, err error) error {
	retry := status.Of(err).Retry()
	if tries >= maxTries || retry != status.RetryYes && retry != status.RetryAfter || ctx.Err() != nil {
		return err
	}
	wait := min((leastWait+rand.N(leastWait))<<min(tries+more, 10), mostWait)
	var s *status.Error
	if errors.As(err, &s) && s.Limit != nil {
		wait = min(max(wait, s.Limit.RetryAfter), mostWait)
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

// open asks for what is left.
func (d *Download) open() error {
	path := "/o/" + d.root.String() + "?format=bao"
	if d.r != (api.Range{End: -1}) {
		path += "&range=" + rangeText(d.r)
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	resp, err := d.g.do(ctx, http.MethodGet, path, http.Header{"Accept": {bao.MediaType}}, nil, 0) //nolint:bodyclose // hangUp does
	if err != nil {
		cancel(nil)
		return err
	}
	resp.Body = &endingBody{resp.Body, cancel}
	d.resp = resp
	d.stall = time.AfterFunc(stallTimeout, func() {
		cancel(status.Errorf(status.Timeout, "nothing arrived for %s, or nothing that could be proved for %s", stallTimeout, proofTimeout))
	})
	d.due = time.Now().Add(proofTimeout)
	d.dec = bao.NewDecoder(d.root, b3.Range(d.r), &stalling{resp.Body, d})
	size, err := d.begin(ctx)
	if err != nil {
		d.hangUp()
		return err
	}
	d.size, d.r.Start = size, d.dec.Offset()
	return nil
}

// begin checks that the answer is an encoding of the object as it was known
// before.
func (d *Download) begin(ctx context.Context) (size int64, err error) {
	if t, _, _ := mime.ParseMediaType(d.resp.Header.Get("Content-Type")); t != bao.MediaType || d.resp.StatusCode != http.StatusOK {
		return 0, status.Errorf(status.Upstream, "%s answered %d with %q instead of a verified encoding; it is no allium gateway, or something between is",
			d.g.base.Host, d.resp.StatusCode, printable(d.resp.Header.Get("Content-Type")))
	}
	switch size, err = d.dec.Begin(); {
	case status.Of(err) == status.Corrupt:
		return 0, d.lied(err)
	case err != nil:
		return 0, d.g.failure(ctx, err)
	case d.size >= 0 && d.size != size:
		return 0, status.Errorf(status.Corrupt, "%s said that %s has %d bytes, and now %d; ask another gateway", d.g.base.Host, d.root, d.size, size)
	}
	return size, nil
}

// lied is the error of bytes that proved wrong.
func (d *Download) lied(err error) error {
	return status.Errorf(status.Corrupt, "%s sent what is not %s; ask another gateway: %w", d.g.base.Host, d.root, err)
}

// rangeText is r as the query of a gateway takes it.
func rangeText(r api.Range) string {
	s := strconv.FormatInt(r.Start, 10)
	switch {
	case r.Start < 0:
		return s
	case r.End < 0:
		return s + "-"
	}
	return s + "-" + strconv.FormatInt(r.End-1, 10)
}

// stalling puts the end off while bytes arrive, until something is due.
type stalling struct {
	r io.Reader
	d *Download
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if n > 0 {
		s.d.stall.Reset(max(0, min(stallTimeout, time.Until(s.d.due))))
	}
	return n, err
}

// Stat is the size of an object, proved by its last group.
func (g *Gateway) Stat(ctx context.Context, root b3.Root) (int64, error) {
	d, err := g.Get(ctx, root, api.Range{Start: -1, End: -1})
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
