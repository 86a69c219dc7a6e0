package exchange

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/cores"
	"allium/internal/limits"
	"allium/protocols/status"
)

// IsForm reports whether a request's body is a form with files.
func IsForm(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == MediaForm
}

// DeadlineBytes is the most bytes that one deadline covers, of a read or a write.
const DeadlineBytes = 1 << 20

// BandwidthBytes is the most bytes of a body that wait for a [limits.Bandwidth] at once.
const BandwidthBytes = 64 << 10

// bandwidthWait is the longest wait for it: a request has its own end.
const bandwidthWait = time.Hour

// Bodies reads the bodies of requests within the node's limits. It is safe for concurrent use.
type Bodies struct {
	cfg      BodyConfig
	minRate  atomic.Int64 // bytes per second; a slower client is cut off
	decoders *limits.FairGate[netip.Prefix]

	// Download bounds the bytes received per second; nil: no bound. It is set before the first Open.
	Download *limits.Bandwidth
	// Cores are those that decoders take; nil: no bound. They are set before the first Decode.
	Cores *cores.Pool
}

// NewBodies returns a Bodies with the limits of cfg and a minimum rate of minRate bytes per
// second. It registers its limit of decoders in r.
func NewBodies(cfg BodyConfig, minRate limits.Bytes, r *limits.Registry) *Bodies {
	l := &Bodies{cfg: cfg, decoders: limits.NewFairGate[netip.Prefix](r, limits.Spec{
		Name: "gateway.decoders", Path: "compressed uploads → decoders",
		Policy: "reject: 429 busy; a client has at most a third while others are free",
	}, cfg.Decoders, 2)}
	l.SetMinRate(minRate)
	return l
}

// SetMinRate changes the minimum rate of the bodies that are opened from now on.
func (l *Bodies) SetMinRate(perSecond limits.Bytes) { l.minRate.Store(int64(perSecond)) }

// Body reads a request's body with a deadline for each read. A client that sends nothing for
// ReadTimeout, or sends slower than MinRate allows beside that, gets timeout. Only the time
// spent waiting for the client counts, not the time that the store takes. The first Read
// answers "Expect: 100-continue", so a handler refuses a request before it.
//
// It belongs to one request and is read by one goroutine at a time.
type Body struct {
	w    *Response
	r    *http.Request
	stop func() // ends the watch over the request's context

	idleTimeout time.Duration // 0: no deadlines
	minRate     int64         // bytes per second
	download    *limits.Bandwidth

	canceled atomic.Bool // the request ended, so no read may wait

	n      int64         // bytes read so far
	window int64         // bytes read in this window, at most DeadlineBytes
	waited time.Duration // time waited for the client in this window
	eof    bool
	err    error // the error that ended the body, never io.EOF
}

// Open starts to read the request's body. A handler calls it once for each request, and calls
// Stop before it returns.
func (l *Bodies) Open(w *Response, r *http.Request) *Body {
	b := &Body{w: w, r: r, idleTimeout: l.cfg.ReadTimeout, minRate: l.minRate.Load(), download: l.Download}
	if w.NoReadTimeout {
		b.idleTimeout = 0
	}
	w.body = b
	_ = w.t.SetWriteDeadline(time.Time{}) // it could end a long upload; the answer sets its own
	watching := make(chan struct{})
	unwatch := context.AfterFunc(r.Context(), func() { // the context alone does not end a socket's read
		defer close(watching)
		b.canceled.Store(true)
		_ = w.rc.SetReadDeadline(pastDeadline)
	})
	b.stop = sync.OnceFunc(func() {
		if !unwatch() {
			<-watching
		}
	})
	return b
}

// pastDeadline is a deadline in the past, which ends a read at once.
var pastDeadline = time.Unix(1, 0)

// Stop ends the watch over the request's context. Nothing is read after it.
func (b *Body) Stop() { b.stop() }

// Read reads from the body. Its errors carry an outcome.
func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.eof:
		return 0, io.EOF
	case b.err != nil:
		return 0, b.err
	case len(p) > DeadlineBytes:
		p = p[:DeadlineBytes]
	}
	near := b.w.From.Near()
	if b.download.Bounds(near) {
		p = p[:min(len(p), BandwidthBytes)]
	}
	begun := time.Now()
	b.deadline(begun.Add(b.idleTimeout))
	n, err := b.r.Body.Read(p)
	took := time.Since(begun)
	b.deadline(time.Time{}) // no deadline while the bytes are stored
	b.n += int64(n)
	if n > 0 { // while this waits, TCP slows the client down
		if waitErr := b.download.Wait(b.r.Context(), b.w.From.BandwidthKey(), near, n, bandwidthWait); waitErr != nil {
			err = waitErr
		}
	}
	if b.idleTimeout > 0 && err == nil && b.slow(int64(n), took) {
		err = b.tooSlow("arrives at less than " + limits.Bytes(b.minRate).Human() + " a second")
	}
	switch {
	case errors.Is(err, io.EOF):
		b.eof = true
	case err != nil:
		b.err = b.readError(err)
		return n, b.err
	}
	return n, err
}

// deadline sets the deadline of reads, if they have one.
func (b *Body) deadline(t time.Time) {
	if b.idleTimeout > 0 {
		b.setDeadline(t)
	}
}

// setDeadline sets the deadline of reads. It never undoes the cancellation of the request.
func (b *Body) setDeadline(t time.Time) {
	_ = b.w.rc.SetReadDeadline(t) // test recorders have no deadlines
	if b.canceled.Load() {
		_ = b.w.rc.SetReadDeadline(pastDeadline)
	}
}

// slow counts n bytes that took the duration took. It reports whether the client exceeded the
// time allowed for the bytes of this window.
func (b *Body) slow(n int64, took time.Duration) bool {
	b.window += n
	b.waited += took
	late := b.waited > b.idleTimeout+time.Duration(float64(b.window)/float64(b.minRate)*float64(time.Second))
	if b.window >= DeadlineBytes { // a fast start gives no credit for later
		b.window, b.waited = 0, 0
	}
	return late
}

func (b *Body) tooSlow(how string) error {
	b.w.t.ReadTimedOut()
	return status.Errorf(status.Timeout,
		"the upload stopped: its body %s. Send it over a faster connection, or in parts (POST /u)", how)
}

// readError gives the error that ended a body its outcome. net/http cancels the request's
// context after a failed read, so only a cause with an outcome tells why.
func (b *Body) readError(err error) error {
	cause := context.Cause(b.r.Context())
	var timeout net.Error
	var conn *net.OpError
	switch {
	case status.HasOutcome(cause):
		return cause
	case status.HasOutcome(err):
		return err
	case errors.As(err, &timeout) && timeout.Timeout() && (cause == nil || b.r.ProtoMajor < 2):
		return b.tooSlow("did not move for " + b.idleTimeout.String())
	case cause != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &conn):
		return status.Errorf(status.Canceled,
			"the client closed the connection after %d bytes of the body: %w", b.n, err)
	}
	return status.Errorf(status.BadRequest, "cannot read the body: its chunked coding is malformed (%w)", err)
}

// AbandonBody stops reading the body of a request that is refused, or answered before its end.
// net/http would read the rest to reuse the connection, and the rest may be gigabytes. On
// HTTP/1.1 the connection closes after the answer. On HTTP/2 only the stream ends.
func (w *Response) AbandonBody(r *http.Request) {
	if r.ContentLength == 0 || w.body != nil && w.body.eof {
		return
	}
	if w.BodyAbandoned = r.ProtoMajor >= 2; w.BodyAbandoned {
		return
	}
	w.Header().Set("Connection", "close")
	w.BodyAbandoned = r.Close
	if w.body != nil {
		w.body.setDeadline(time.Now().Add(abandonTimeout))
		return
	}
	_ = w.rc.SetReadDeadline(time.Now().Add(abandonTimeout))
}

// abandonTimeout bounds how long an abandoned body is still read.
const abandonTimeout = time.Second

// discardTimeout bounds how long a client may still send after its upload failed.
const discardTimeout = 5 * time.Second

// Discard reads and drops the rest of the body after an error was sent. If the connection
// closed first, the client would see that and not the error.
func (w *Response) Discard(r *http.Request) {
	until, body := time.Now().Add(discardTimeout), r.Body
	if w.rc.SetReadDeadline(until) != nil {
		return
	}
	if b := w.body; b != nil { // its Read would extend the deadline
		b.setDeadline(until)
		body = b.r.Body
	}
	_, _ = io.Copy(io.Discard, body) // the answer was sent, so an error has no meaning
}

// ReadsBody reports whether the handler called Open.
func (w *Response) ReadsBody() bool { return w.body != nil }

// Received returns how many bytes of the body were read after Open.
func (w *Response) Received() int64 {
	if w.body == nil {
		return 0
	}
	return w.body.n
}
