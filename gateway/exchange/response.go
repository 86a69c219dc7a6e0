package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Transport sends an answer to its client. A listener implements it for a [Response]. Every
// write renews the connection's deadline, so that only a client that takes nothing is cut off.
type Transport interface {
	http.ResponseWriter
	Admission
	Unwrap() http.ResponseWriter
	Flush() error
	SetWriteDeadline(t time.Time) error
	// ReadTimedOut counts a request whose body came too slowly.
	ReadTimedOut()
	// User returns the user at the other end of a Unix socket as "uid:" and a number, or "" on
	// other connections.
	User() string
}

// Admission gives a handler the places that its request takes in the limits, and what its connection brought.
type Admission interface {
	// StartTransfer counts the answer as a transfer if n more bytes exceed the buffers. It
	// returns busy if no place is free and no other transfer can be evicted. A handler that calls it before the
	// first Write can still answer with its error.
	StartTransfer(n int) error
	// ReleaseAdmission frees the request's place in the limit of requests being decided.
	ReleaseAdmission()
	// EvictFetched cuts the slowest transfer that has a permit of the fetch gate, of the client with the
	// most of them, if that has more than this client. The request needs such a permit.
	EvictFetched()
	// PassedFile returns the file that the client passed over a Unix socket with its request, once, or
	// nil. The caller closes it.
	PassedFile() *os.File
}

// Response is the answer to a request, together with the request's caller. Only the goroutine
// that serves the request uses it.
type Response struct {
	Admission
	Caller
	Content
	Sent
	Pages  Pages  // whether an error is a page if the client prefers that
	Prefix string // what the paths of this listener begin with for the client, without a slash at its end

	t      Transport
	rc     http.ResponseController // of t
	body   *Body                   // the request's body, nil before Open
	values headerValues

	BodyAbandoned bool // AbandonBody was called, and net/http will not read the rest
}

// Content says what a handler answers with. The handler sets it.
type Content struct {
	Root     b3.Root         // the requested address, zero for none
	LookupID status.LookupID // the lookup that found what was requested, for the log; 0 for none
	Caching  string          // Cache-Control of content and redirects; empty: Immutable
	Modified time.Time       // Last-Modified of content whose Caching is set; zero: none
	Head     bool            // the answer has a Content-Length and no body
	Fetching int             // open contents that hold a permit of the fetch gate
	Listing  bool            // the body is a directory listing; listings have another limit
	Reported error           // the error that the body reported to the client
}

// Sent is the part of an answer that was sent.
type Sent struct {
	Status int       // 0 until the header is sent
	First  time.Time // when the header was sent
	Bytes  int64     // bytes of the body
	Failed error     // the connection's error
}

// Started reports whether the header was sent.
func (s *Sent) Started() bool { return s.Status != 0 }

// Begin makes t the transport of w.
func (w *Response) Begin(t Transport) {
	w.t, w.Admission, w.peer, w.rc = t, t, t, *http.NewResponseController(t)
}

// Header returns the answer's header.
func (w *Response) Header() http.Header { return w.t.Header() }

// Unwrap lets http.ResponseController find the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.t }

// HeaderValue returns s as a header's value. It allocates nothing for the first five values.
func (w *Response) HeaderValue(s string) []string { return w.values.add(s) }

// headerValues holds the first values of header fields, so that they need no allocation of their own.
type headerValues struct {
	held [5]string
	n    int
}

// add returns s as the only value of a field.
func (v *headerValues) add(s string) []string {
	if v.n == len(v.held) {
		return []string{s}
	}
	v.held[v.n] = s
	v.n++
	return v.held[v.n-1 : v.n : v.n]
}

// Short reports whether less was sent than Content-Length promised.
func (w *Response) Short() bool {
	length := w.Header()["Content-Length"] // the canonical key
	if w.Head || len(length) == 0 {
		return false
	}
	n, err := strconv.ParseInt(length[0], 10, 64)
	return err == nil && w.Bytes < n
}

// WriteHeader sends the header, unless it was sent.
func (w *Response) WriteHeader(code int) {
	if w.Started() {
		return
	}
	w.Status, w.First = code, time.Now()
	w.t.WriteHeader(code)
}

// Write sends p.
func (w *Response) Write(p []byte) (n int, err error) {
	if err := w.t.StartTransfer(len(p)); err != nil {
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
	w.WriteHeader(http.StatusOK)
	err := w.t.Flush()
	if err != nil {
		w.Failed = err
	}
	return err
}

// Send sends a whole answer. For HEAD it sends the header alone.
func (w *Response) Send(r *http.Request, code int, contentType string, body []byte) error {
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = w.HeaderValue(contentType), w.HeaderValue(strconv.Itoa(len(body)))
	if w.Head = r.Method == http.MethodHead; w.Head {
		w.WriteHeader(code)
		return nil
	}
	w.WriteHeader(code)
	_, err := w.Write(body)
	return err
}

// SendJSON sends v as JSON.
func (w *Response) SendJSON(r *http.Request, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, code, MediaJSON, append(body, '\n'))
}

// Cause returns why a handler failed with err: the error that ended the request's body, or
// the cause that ended ctx, or err itself.
func (w *Response) Cause(ctx context.Context, err error) error {
	if err != nil && w.body != nil && w.body.err != nil {
		return w.body.err
	}
	return CauseOf(ctx, err)
}

// CauseOf returns the cause that ended ctx, or err if ctx has not ended. The error of an
// interrupted read does not tell why it was interrupted. A nil err, and corrupt, stay. The cause
// gets the lookup of err.
func CauseOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err != nil && cause != nil && !errors.Is(err, cause) && status.Of(err) != status.Corrupt {
		id, _ := status.ParseLookupID(status.LookupOf(err))
		return status.WithLookup(cause, id)
	}
	return err
}
