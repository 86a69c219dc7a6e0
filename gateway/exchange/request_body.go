package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// DeadlineBytes is how much is read or written under one deadline.
const DeadlineBytes = 1 << 20

// Bodies reads the bodies of requests within the bounds of the node.
type Bodies struct {
	cfg      BodyConfig
	minRate  int64 // bytes per second, below which a client is cut off
	decoding *limits.Gate
}

// NewBodies returns what reads bodies within cfg, and at no less than minRate bytes
// per second; r lists how many are decoded.
func NewBodies(cfg BodyConfig, minRate limits.Bytes, r *limits.Registry) *Bodies {
	return &Bodies{cfg: cfg, minRate: int64(minRate), decoding: r.NewGate(limits.Spec{
		Name: "gateway.decoders", Path: "compressed uploads → decoders", Policy: "reject: 429 busy",
	}, cfg.Decoders, 0)}
}

// Body reads a request's body under deadlines that roll: who sends
// nothing for ReadTimeout, or less than MinRate beside that, is cut off with
// timeout. Only the time that is spent waiting for the client counts: what the
// store takes is not its fault. The first Read answers "Expect: 100-continue",
// so everything that can refuse comes before.
//
// It is one request's, and is read by one goroutine at a time.
type Body struct {
	w    *Response
	r    *http.Request
	stop func() // ends the watch over the request's context

	patience time.Duration // 0: without end
	minRate  int64         // bytes per second

	cut atomic.Bool // the request has ended: no read waits any more

	n      int64         // read so far
	window int64         // read in this window, at most deadlineBytes
	waited time.Duration // in this window
	eof    bool
	err    error // what ended it, but io.EOF
}

// Open begins to read the request's body, once for each request. The caller
// ends it before it returns.
func (l *Bodies) Open(w *Response, r *http.Request) *Body {
	b := &Body{w: w, r: r, patience: l.cfg.ReadTimeout, minRate: l.minRate}
	if w.Patient {
		b.patience = 0
	}
	w.body = b
	_ = w.t.SetWriteDeadline(time.Time{}) // it would end an upload that takes longer; the answer sets its own
	watching := make(chan struct{})
	unwatch := context.AfterFunc(r.Context(), func() { // a read of the socket does not look at the context
		defer close(watching)
		b.cut.Store(true)
		_ = w.rc.SetReadDeadline(longAgo)
	})
	b.stop = sync.OnceFunc(func() {
		if !unwatch() {
			<-watching
		}
	})
	return b
}

// longAgo is a deadline that is over.
var longAgo = time.Unix(1, 0)

// End is called when nothing more is read.
func (b *Body) End() { b.stop() }

// Read gives what arrived. Errors carry an outcome.
func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.eof:
		return 0, io.EOF
	case b.err != nil:
		return 0, b.err
	case len(p) > DeadlineBytes:
		p = p[:DeadlineBytes]
	}
	begun := time.Now()
	b.deadline(begun.Add(b.patience))
	n, err := b.r.Body.Read(p)
	b.deadline(time.Time{}) // nobody waits for the client while this is stored
	b.n += int64(n)
	if b.patience > 0 && err == nil && b.slow(int64(n), time.Since(begun)) {
		err = b.late("arrives at less than " + limits.Bytes(b.minRate).Human() + " a second")
	}
	switch {
	case errors.Is(err, io.EOF):
		b.eof = true
	case err != nil:
		b.err = b.reason(err)
		return n, b.err
	}
	return n, err
}

// deadline sets when a read gives up.
func (b *Body) deadline(t time.Time) {
	if b.patience > 0 {
		b.setDeadline(t)
	}
}

// setDeadline sets a deadline that does not come in the way of a cut.
func (b *Body) setDeadline(t time.Time) {
	_ = b.w.rc.SetReadDeadline(t) // what cannot have one does without
	if b.cut.Load() {
		_ = b.w.rc.SetReadDeadline(longAgo)
	}
}

// slow counts n bytes that took so long, and reports whether the client has
// used up what it may take for as many as this window has.
func (b *Body) slow(n int64, took time.Duration) bool {
	b.window += n
	b.waited += took
	late := b.waited > b.patience+time.Duration(float64(b.window)/float64(b.minRate)*float64(time.Second))
	if b.window >= DeadlineBytes { // what was fast once does not pay for being slow later
		b.window, b.waited = 0, 0
	}
	return late
}

func (b *Body) late(how string) error {
	b.w.t.ReadTimedOut()
	return status.Errorf(status.Timeout, "upload: the body %s; send it again over a faster or steadier line, or in pieces (POST /u)", how)
}

// reason gives what ended a body its outcome. net/http ends the request's
// context after a failed read, so that tells nothing unless it says why.
func (b *Body) reason(err error) error {
	cause := context.Cause(b.r.Context())
	var carries interface{ Status() status.Outcome }
	var timeout net.Error
	var conn *net.OpError
	switch {
	case errors.As(cause, &carries):
		return cause
	case errors.As(err, &carries):
		return err
	case errors.As(err, &timeout) && timeout.Timeout() && (cause == nil || b.r.ProtoMajor < 2):
		return b.late("stood still for " + b.patience.String())
	case cause != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &conn):
		return status.Errorf(status.Canceled, "upload: the client went away after %d bytes: %w", b.n, err)
	}
	return status.Errorf(status.BadRequest, "upload: the body is malformed: %w", err) // its chunks are
}

// LeaveBody tells a client whose request is refused, or answered before its
// end, that nothing more is read of it: net/http would read on for a next
// request, and the rest may be gigabytes, or slow.
func (w *Response) LeaveBody(r *http.Request) {
	if r.ContentLength == 0 || w.body != nil && w.body.eof {
		return
	}
	if w.Left = r.ProtoMajor >= 2; w.Left { // the stream alone ends
		return
	}
	w.Header().Set("Connection", "close")
	w.Left = r.Close
	if w.body != nil {
		w.body.setDeadline(time.Now().Add(leaveFor))
		return
	}
	_ = w.rc.SetReadDeadline(time.Now().Add(leaveFor))
}

// leaveFor bounds what is still read of a body that is left.
const leaveFor = time.Second

// discardFor is how long a client may go on sending after its upload failed.
const discardFor = 5 * time.Second

// Discard reads what a client still sends after it was told of an error: if
// the connection were closed under it, it would see that and not the error.
func (w *Response) Discard(r *http.Request) {
	until, body := time.Now().Add(discardFor), r.Body
	if w.rc.SetReadDeadline(until) != nil {
		return
	}
	if b := w.body; b != nil { // whose reads would put it off
		b.setDeadline(until)
		body = b.r.Body
	}
	_, _ = io.Copy(io.Discard, body) // until it stops, one way or the other
}

// ReadsBody reports whether the request's body is read under deadlines.
func (w *Response) ReadsBody() bool { return w.body != nil }

// Received returns how much was read of the request's body under deadlines.
func (w *Response) Received() int64 {
	if w.body == nil {
		return 0
	}
	return w.body.n
}
