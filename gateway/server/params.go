package server

import (
	"net/http"
	"time"
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
