package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Transport sends an answer to its client: what a listener does for a [response].
// Every write renews the deadline of the connection, so that only a client that
// stands still is cut off.
type Transport interface {
	http.ResponseWriter
	Unwrap() http.ResponseWriter
	Flush() error
	SetWriteDeadline(t time.Time) error
	// Whole tells that the answer's body is the next Write, of n bytes: its header
	// can wait for that.
	Whole(n int)
	// Underway counts the answer as a transfer once its body does not fit into
	// buffers; n more bytes of it are to be written. It fails with busy where no
	// other transfer makes room.
	Underway(n int) error
	// Undecided gives back the place that the request has while it is decided.
	Undecided()
	// ReadTimedOut counts a request whose body came too slowly.
	ReadTimedOut()
	// User returns who is on the other end of a Unix socket, "uid:" and a number,
	// and nothing elsewhere.
	User() string
}

// Response is an answer in the making, with what the listener knows of its
// request. It is used by the one goroutine that answers the request.
type Response struct {
	t  Transport
	rc http.ResponseController // of t

	Caller
	CorrID string // X-Corr-ID
	Page   bool   // an error is answered with a page where that is wanted
	Audit  Audit  // nil: nothing is recorded

	// What the handler says of its answer.
	Root    b3.Root // the address asked for, zero for none
	Head    bool    // a body is announced and not sent
	Listing bool    // the body is a directory's listing, which are counted apart
	Told    error   // that the client was told of in the body

	// What became of it.
	Status   int       // 0 until the header was sent
	First    time.Time // when
	Bytes    int64     // of the body so far
	Failed   error     // of the connection
	body     *Body     // of the request, once a handler began to read it
	Left     bool      // the request's body, and net/http will not wait for its rest
	Recorded uint64    // number of the mutation in the audit log

	values [5]string // of headers
	valued int       // of values
}

// Begin makes w the answer that t sends.
func (w *Response) Begin(t Transport) {
	w.t, w.rc = t, *http.NewResponseController(t)
}

// Header is that of the answer.
func (w *Response) Header() http.Header { return w.t.Header() }

// Unwrap lets http.ResponseController find the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.t }

// HeaderValue is a header's value, without an allocation for the first few.
func (w *Response) HeaderValue(s string) []string {
	if w.valued == len(w.values) {
		return []string{s}
	}
	w.values[w.valued] = s
	w.valued++
	return w.values[w.valued-1 : w.valued : w.valued]
}

// Started reports whether the header was sent.
func (w *Response) Started() bool { return w.Status != 0 }

// Short reports whether less was sent than Content-Length promised.
func (w *Response) Short() bool {
	n, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return err == nil && !w.Head && w.Bytes < n
}

// Whole tells that the answer's body is the next Write, of n bytes.
func (w *Response) Whole(n int) {
	if !w.Started() {
		w.t.Whole(n)
	}
}

// Underway counts the answer as a transfer if n more bytes make it one. What calls
// it before the header is sent can still answer with its error.
func (w *Response) Underway(n int) error { return w.t.Underway(n) }

// Undecided gives back the place that the request has while it is decided.
func (w *Response) Undecided() { w.t.Undecided() }

// WriteHeader sends the header.
func (w *Response) WriteHeader(code int) {
	if w.Started() {
		return
	}
	w.Status, w.First = code, time.Now()
	w.t.WriteHeader(code)
}

// Write sends p.
func (w *Response) Write(p []byte) (n int, err error) {
	if err := w.t.Underway(len(p)); err != nil {
		return 0, err
	}
	w.WriteHeader(http.StatusOK)
	n, err = w.t.Write(p)
	w.Bytes += int64(n)
	if err != nil {
		w.Failed = err
	}
	return n, err
}

// Flush sends what is buffered.
func (w *Response) Flush() error {
	err := w.t.Flush()
	if err != nil {
		w.Failed = err
	}
	return err
}

// FullDuplex lets the answer begin before the request's body has ended.
func (w *Response) FullDuplex() error { return w.rc.EnableFullDuplex() }

// Send answers with a whole body, which HEAD asks for without wanting it.
func (w *Response) Send(r *http.Request, code int, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if w.Head = r.Method == http.MethodHead; w.Head {
		w.WriteHeader(code)
		return nil
	}
	w.Whole(len(body))
	w.WriteHeader(code)
	_, err := w.Write(body)
	return err
}

// SendJSON answers with v.
func (w *Response) SendJSON(r *http.Request, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("gateway: encode the answer: %w", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, code, MediaJSON, append(body, '\n'))
}

// Because returns why a handler failed with err: what ended the request's body, if
// something did, or the request.
func (w *Response) Because(ctx context.Context, err error) error {
	if err != nil && w.body != nil && w.body.err != nil {
		return w.body.err
	}
	return CauseOf(ctx, err)
}

// CauseOf returns why ctx ended, if it did, and err otherwise: a read that was
// interrupted says only that it was.
func CauseOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) && status.Of(err) != status.Corrupt {
		return cause
	}
	return err
}
