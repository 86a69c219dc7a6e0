package server

import (
	"net/http"
	"time"

	"allium/internal/limits"
)

// Params are what no operator has a reason to choose.
type Params struct {
	// Drain is how long Run drains when nobody called Drain before.
	Drain time.Duration
	// Abort is how long aborted requests have to end their answers themselves
	// before their connections are closed under them: well within the second that
	// SPEC §10 gives the whole node.
	Abort time.Duration
	// Listings is how many listings of directories are under way at once: each holds
	// some manifests, of up to a mebibyte, or its own text until its client has it.
	// For the next, the slowest of the client that has most is cut off.
	Listings int64
	// LeftStreams is how many streams of HTTP/2 are kept open after their upload
	// was refused; of more, each is reset at once.
	LeftStreams int64
	// Wrap sees the requests of a listener before its handler; nil: nobody does.
	Wrap func(Role, http.Handler) http.Handler
}

// DefaultParams returns the numbers of a node.
func DefaultParams() Params {
	return Params{Drain: 3 * time.Second, Abort: 250 * time.Millisecond, Listings: 256, LeftStreams: 256}
}

// RequestParams are the numbers of requests that nobody tunes. Tests set them
// through [Config].
type RequestParams struct {
	// HeaderTimeout bounds the time in which a client sends a request header. The connection is closed
	// then.
	HeaderTimeout time.Duration `fixed:"header_timeout"`

	// HeaderBytes bounds a request header. A longer one is refused.
	HeaderBytes limits.Bytes `fixed:"header_bytes"`

	// WriteTimeout is how long a client may take nothing, beside the time that MinRate allows. It is
	// cut off then.
	WriteTimeout time.Duration `fixed:"write_timeout"`

	// SlowRequest is the time to the first byte from which a request is logged as slow.
	SlowRequest time.Duration `fixed:"slow_request"`
}

// defaultRequestParams returns the values that hold.
func defaultRequestParams() RequestParams {
	return RequestParams{
		HeaderTimeout: 5 * time.Second,
		HeaderBytes:   16 << 10,
		WriteTimeout:  5 * time.Second,
		SlowRequest:   2 * time.Second,
	}
}

// AdminParams are the numbers of the admin listener and the Unix socket that nobody tunes. Tests set
// them through [AdminConfig].
type AdminParams struct {
	// Inflight bounds the API requests served at once on the admin listener and the socket. The next
	// is refused with busy.
	Inflight int64 `fixed:"inflight"`

	// Conns bounds the open connections of the admin listener, and as many of the socket. The next is
	// closed at once.
	Conns int64 `fixed:"conns"`
}

// defaultAdminParams returns the values that hold.
func defaultAdminParams() AdminParams {
	return AdminParams{
		Inflight: 64,
		Conns:    256,
	}
}
