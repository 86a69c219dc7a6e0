package server

import (
	"net/http"
	"time"

	"allium/internal/limits"
)

// Params are the fixed numbers of a Server. Tests set other values.
type Params struct {
	// Drain limits the wait of Run for requests in flight if Drain was not called before.
	Drain time.Duration
	// Abort is the time that aborted requests have to end before their connections are closed.
	// It is well within the second that SPEC §10 gives the whole node.
	Abort time.Duration
	// Listings bounds the directory listings being sent. Each holds some manifests of up to
	// 1 MiB, or its own text until the client has it. At the limit, the slowest listing of the
	// client with the most listings is cut off.
	Listings int64
	// LingeringStreams bounds the HTTP/2 streams that stay open after their upload was refused.
	// The next stream is reset at once.
	LingeringStreams int64
	// EventStreams bounds the streams of events on the admin listener and the socket together.
	// They last as long as their readers, so they take no places of other requests. The next is
	// refused with busy.
	EventStreams int64
	// EventsEnd is the time that a reader of events has to read the end of its stream when the server drains. Then the
	// server cuts its connection, because the drain must not wait for a slow reader.
	EventsEnd time.Duration
	// Wrap wraps the handler of each listener, for tests. nil: no wrapper. Its http.ResponseWriter finds the header of
	// the answer with conns.HeaderOf.
	Wrap func(Role, http.Handler) http.Handler
}

// DefaultParams returns the params of a node.
func DefaultParams() Params {
	return Params{
		Drain: 3 * time.Second, Abort: 250 * time.Millisecond, Listings: 256, LingeringStreams: 256, EventStreams: 16,
		EventsEnd: 500 * time.Millisecond,
	}
}

// RequestParams are the fixed numbers of requests. Tests set them through [Config].
type RequestParams struct {
	// HeaderTimeout bounds the time in which a client sends a request header. The connection is
	// closed after it.
	HeaderTimeout time.Duration `fixed:"header_timeout"`

	// HeaderBytes bounds a request header. A longer one is refused.
	HeaderBytes limits.Bytes `fixed:"header_bytes"`

	// WriteTimeout is the time after which a reader of events that takes no byte is cut off.
	WriteTimeout time.Duration `fixed:"write_timeout"`

	// StallTimeout is the time after which any other client that acknowledges no byte of an answer is
	// cut off. A client is not cut off for being slow.
	StallTimeout time.Duration `fixed:"stall_timeout"`

	// SlowRequest is the time to the first byte above which a request is logged as slow.
	SlowRequest time.Duration `fixed:"slow_request"`

	// RateWait limits the wait of a request above the rate for its turn. The request is refused after it.
	RateWait time.Duration `fixed:"rate_wait"`

	// RateWaiting bounds the requests that wait for the rate. The next is refused at once.
	RateWaiting int64 `fixed:"rate_waiting"`

	// RateWaitingBytes bounds the headers of the requests that wait for the rate. The next is refused at
	// once.
	RateWaitingBytes limits.Bytes `fixed:"rate_waiting_bytes"`
}

// defaultRequestParams returns the params of a node.
func defaultRequestParams() RequestParams {
	return RequestParams{
		HeaderTimeout: 5 * time.Second,
		HeaderBytes:   16 << 10,
		WriteTimeout:  5 * time.Second,
		StallTimeout:  10 * time.Minute,
		SlowRequest:   2 * time.Second,

		RateWait: 2 * time.Second, RateWaiting: 1024, RateWaitingBytes: 4 << 20,
	}
}

// AdminParams are the fixed numbers of the admin listener and the Unix socket. Tests set them
// through [AdminConfig].
type AdminParams struct {
	// Inflight bounds the API requests in flight on the admin listener and the socket together.
	// The next is refused with busy.
	Inflight int64 `fixed:"inflight"`

	// Conns bounds the open connections of the admin listener, and also those of the socket. The
	// next is closed at once.
	Conns int64 `fixed:"conns"`
}

// defaultAdminParams returns the params of a node.
func defaultAdminParams() AdminParams {
	return AdminParams{
		Inflight: 64,
		Conns:    256,
	}
}
