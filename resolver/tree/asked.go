package tree

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/resolver/trace"
)

// asked is a request to one peer, for the record of the fetch.
type asked struct {
	trace *trace.Lookup
	by    peer.ID
	at    time.Time
	span  trace.Span
}

// newAsked begins the record of a request for n objects.
func newAsked(t *trace.Lookup, p peer.ID, n int) *asked {
	return &asked{trace: t, by: p, at: time.Now(), span: trace.Span{Objects: n}}
}

// sent records that the request goes out now.
func (a *asked) sent() { a.span.Sent = time.Since(a.at) }

// answered records that an item of the answer arrives now. The first one counts.
func (a *asked) answered() {
	if a.span.First == 0 {
		a.span.First = max(1, time.Since(a.at))
	}
}

// ended records the end of the request, in which so many verified bytes arrived.
func (a *asked) ended(bytes int64, err error) {
	a.span.Bytes = bytes
	a.trace.Span(a.by, a.span, a.at, err)
}
