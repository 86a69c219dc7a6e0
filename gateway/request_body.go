package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"allium/protocols/admission"
	"allium/protocols/status"
)

// requestBody reads a request's body under deadlines that roll: who sends
// nothing for ReadTimeout, or less than MinRate beside that, is cut off with
// timeout. Only the time that is spent waiting for the client counts: what the
// store takes is not its fault. The first Read answers "Expect: 100-continue",
// so everything that can refuse comes before.
//
// It is one request's, and is read by one goroutine at a time.
type requestBody struct {
	w    *response
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

// bodyOf begins to read the request's body, once for each request. The caller
// ends it before it returns.
func (g *Gateway) bodyOf(w *response, r *http.Request) *requestBody {
	b := &requestBody{w: w, r: r, patience: g.cfg.ReadTimeout, minRate: int64(g.cfg.MinRate)}
	if w.patience == 0 {
		b.patience = 0
	}
	w.body = b
	_ = w.rc.SetWriteDeadline(time.Time{}) // it would end an upload that takes longer; the answer sets its own
	w.deadline = time.Time{}
	watching := make(chan struct{})
	unwatch := context.AfterFunc(r.Context(), func() { // a read of the socket does not look at the context
		defer close(watching)
		b.cut.Store(true)
		_ = w.rc.SetReadDeadline(past)
	})
	b.stop = sync.OnceFunc(func() {
		if !unwatch() {
			<-watching
		}
	})
	return b
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// end is called when nothing more is read.
func (b *requestBody) end() { b.stop() }

// Read gives what arrived. Errors carry an outcome.
func (b *requestBody) Read(p []byte) (int, error) {
	switch {
	case b.eof:
		return 0, io.EOF
	case b.err != nil:
		return 0, b.err
	case len(p) > deadlineBytes:
		p = p[:deadlineBytes]
	}
	begun := time.Now()
	b.deadline(begun.Add(b.patience))
	n, err := b.r.Body.Read(p)
	b.deadline(time.Time{}) // nobody waits for the client while this is stored
	b.n += int64(n)
	if b.patience > 0 && err == nil && b.slow(int64(n), time.Since(begun)) {
		err = b.late("arrives at less than " + admission.Bytes(b.minRate).Human() + " a second")
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
func (b *requestBody) deadline(t time.Time) {
	if b.patience > 0 {
		b.setDeadline(t)
	}
}

// setDeadline sets a deadline that does not come in the way of a cut.
func (b *requestBody) setDeadline(t time.Time) {
	_ = b.w.rc.SetReadDeadline(t) // what cannot have one does without
	if b.cut.Load() {
		_ = b.w.rc.SetReadDeadline(past)
	}
}

// slow counts n bytes that took so long, and reports whether the client has
// used up what it may take for as many as this window has.
func (b *requestBody) slow(n int64, took time.Duration) bool {
	b.window += n
	b.waited += took
	late := b.waited > b.patience+time.Duration(float64(b.window)/float64(b.minRate)*float64(time.Second))
	if b.window >= deadlineBytes { // what was fast once does not pay for being slow later
		b.window, b.waited = 0, 0
	}
	return late
}

func (b *requestBody) late(how string) error {
	b.w.m.timeouts.WithLabelValues("read").Inc()
	return status.Errorf(status.Timeout, "upload: the body %s; send it again over a faster or steadier line, or in pieces (POST /u)", how)
}

// reason gives what ended a body its outcome. net/http ends the request's
// context after a failed read, so that tells nothing unless it says why.
func (b *requestBody) reason(err error) error {
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

// because is why a handler failed with err: what ended the request's body, if
// something did, or the request.
func (w *response) because(ctx context.Context, err error) error {
	if err != nil && w.body != nil && w.body.err != nil {
		return w.body.err
	}
	return causeOf(ctx, err)
}

// leaveBody tells a client whose request is refused, or answered before its
// end, that nothing more is read of it: net/http would read on for a next
// request, and the rest may be gigabytes, or slow.
func (w *response) leaveBody(r *http.Request) {
	if r.ContentLength == 0 || w.body != nil && w.body.eof {
		return
	}
	if w.left = r.ProtoMajor >= 2; w.left { // the stream alone ends
		return
	}
	w.Header().Set("Connection", "close")
	w.left = r.Close
	if w.body != nil {
		w.body.setDeadline(time.Now().Add(leaveFor))
		return
	}
	_ = w.rc.SetReadDeadline(time.Now().Add(leaveFor))
}

const (
	leaveFor       = time.Second            // bounds what is still read of a body that is left
	leaveStreamFor = 500 * time.Millisecond // the same on HTTP/2; net/http waits as long before it resets a connection
	leftStreams    = 256                    // streams that are kept open so; of more, each is reset at once
)

// linger keeps what is still on its way of a body that is left from destroying
// the answer. Where the client's header said that this is the last request of
// its connection, net/http closes at once, and the reset that answers the rest
// can overtake the answer (RFC 9112 §9.6): it is read on for leaveFor. A stream of
// HTTP/2 is reset as soon as its handler returns, and there are clients, curl
// among them, that throw away what they have not looked at by then. After an
// answer that makes them stop it stays open until the body has ended, or for
// leaveStreamFor.
func (g *Gateway) linger(w *response, r *http.Request) {
	switch {
	case !w.left || w.rc.Flush() != nil:
	case r.ProtoMajor < 2:
		_, _ = io.Copy(io.Discard, r.Body) // until it stops, one way or the other
	case w.status >= http.StatusMultipleChoices: // after others they would not stop
		g.lingerStream(w, r)
	}
}

func (g *Gateway) lingerStream(w *response, r *http.Request) {
	release, err := g.lingers.TryAcquire()
	if err != nil {
		return
	}
	defer release()
	over := time.NewTimer(leaveStreamFor)
	defer over.Stop()
	_ = w.rc.SetReadDeadline(time.Now().Add(leaveStreamFor))
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		return
	}
	select { // a body that stood still before cannot be read any more
	case <-over.C:
	case <-r.Context().Done():
	}
}
