package providers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/dht/probes"
	"allium/protocols/status"
)

// Requests records the requests of a [Finder] to peers that it asks beside the DHT, in front of those
// of the DHT. The DHT writes its own steps while the search runs. Start and the funcs that it returns
// may be called concurrently.
type Requests struct {
	trace *probes.Trace // nil: nothing is recorded
	begun time.Time

	mu       sync.Mutex // lock: leaf
	all      []probes.Step
	answered bool
}

// NewRequests returns an empty record, which Finish adds to t. t may be nil.
func NewRequests(t *probes.Trace) *Requests { return &Requests{trace: t, begun: time.Now()} }

// Start records a request to p. The caller calls done with its result: the number of providers that it
// brought, and why it failed. not_found is an answer.
func (r *Requests) Start(p peer.ID, hedge bool) (done func(found int, err error)) {
	begun := time.Since(r.begun)
	return func(found int, err error) {
		outcome := status.Of(err)
		if errors.Is(err, context.Canceled) {
			outcome = status.Canceled
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answered = r.answered || outcome == status.OK || outcome == status.NotFound
		r.all = append(r.all, probes.Step{
			Peer: p, Hedge: hedge, Start: begun, Took: time.Since(r.begun) - begun, Outcome: outcome.String(),
			Providers: found,
		})
	}
}

// Answered reports whether a peer has answered, be it that it knows nothing.
func (r *Requests) Answered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}

// Finish puts the requests into the trace. All of them, and the search in the DHT, have ended.
func (r *Requests) Finish() {
	if r.trace == nil {
		return
	}
	r.trace.Steps = append(r.all, r.trace.Steps...)
	r.trace.Probes += len(r.all)
	if r.trace.End == "" {
		r.trace.End, r.trace.Took = "satisfied", time.Since(r.begun)
	}
}
