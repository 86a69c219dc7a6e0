package dht

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/kad"
	"allium/protocols/status"
)

// Trace is how one lookup went. It is complete when the lookup has returned,
// and belongs to the lookup until then.
type Trace struct {
	Steps  []Step        // in the order in which they were sent; at most kad.Config.MaxProbes
	End    string        // why it ended: satisfied, converged, hop_exceeded, probe_exceeded, timed_out, no_peers, canceled
	Hops   int           // of the last answer that counted
	Probes int           // sent, hedges included
	Hedges int           // of them in place of a late one
	Took   time.Duration // of the whole lookup
}

// Step is one probe of a lookup.
type Step struct {
	Peer  peer.ID
	Hop   int           // the own table is hop 1
	Hedge bool          // sent in place of a late probe
	Start time.Duration // since the start of the lookup
	Took  time.Duration // until the answer, the failure or the cancel; dial included

	// Outcome is ok; timeout when the peer did not answer in time; late when it
	// was given up for another; canceled when the lookup ended first; or what the
	// call failed with (SPEC §3).
	Outcome   string
	Closer    int // peers it named
	Providers int // providers it brought that nobody had before
}

// givenUp is the outcome of a probe whose place was needed.
const givenUp = "late"

// begin adds a step and returns its place. A nil trace keeps nothing.
func (t *Trace) begin(s Step) int {
	if t == nil {
		return 0
	}
	t.Steps = append(t.Steps, s)
	return len(t.Steps) - 1
}

// end closes a step at now.
func (t *Trace) end(step int, now time.Duration, outcome string) {
	if t == nil {
		return
	}
	s := &t.Steps[step]
	s.Took, s.Outcome = now-s.Start, outcome
}

func (t *Trace) answered(step int, now time.Duration, closer, providers int) {
	if t == nil {
		return
	}
	t.end(step, now, status.OK.String())
	t.Steps[step].Closer, t.Steps[step].Providers = closer, providers
}

// finish sums up. A lookup that its caller cut off was canceled, and so was
// every probe still in flight.
func (t *Trace) finish(r kad.Result[peer.ID], cut error) {
	t.End, t.Hops, t.Probes, t.Hedges, t.Took = r.End.String(), r.Hops, r.Probes, r.Hedges, r.Took
	if r.End == kad.Running && cut != nil {
		t.End = status.Of(cut).String()
	}
	for i := range t.Steps {
		if t.Steps[i].Outcome == "" {
			t.end(i, r.Took, status.Canceled.String())
		}
	}
}
