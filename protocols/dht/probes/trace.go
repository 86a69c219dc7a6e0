// Package probes records the requests of one lookup in the DHT: which peers were
// asked, in which order, and how each request ended.
//
// One lookup: the engine of package dht calls [Trace.Start] for each request it
// sends, [Trace.Answered] or [Trace.EndStep] when it ends, and [Trace.Finish] at the end
// of the lookup. Then the trace is complete. The calls come from one goroutine.
package probes

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/kad"
	"allium/protocols/status"
)

// Trace records how one lookup went. The lookup writes to it until it returns; the trace
// is then complete.
type Trace struct {
	Steps  []Step        // in the order sent; at most kad.Config.MaxProbes
	End    string        // satisfied, converged, hop_exceeded, probe_exceeded, timed_out, no_peers or canceled
	Hops   int           // hop of the last response that counted
	Probes int           // sent, hedges included
	Hedges int           // probes sent because an earlier one was late
	Took   time.Duration // duration of the lookup
}

// Step is one probe of a lookup.
type Step struct {
	Peer  peer.ID
	Hop   int           // the node's own table is hop 1
	Hedge bool          // sent because an earlier probe was late
	Start time.Duration // since the start of the lookup
	Took  time.Duration // until the response, the failure or the cancel; dial included

	// Outcome is ok; timeout if the peer did not answer in time; late if its slot was given
	// to another; canceled if the lookup ended first; or the outcome of the failed call
	// (SPEC §3).
	Outcome   string
	Closer    int // closer peers that the response named
	Providers int // providers that no earlier response named
}

// OutcomeLate is the outcome of a probe that was canceled because its slot was needed.
const OutcomeLate = "late"

// Start adds a step and returns its index. A nil trace records nothing.
func (t *Trace) Start(s Step) int {
	if t == nil {
		return 0
	}
	t.Steps = append(t.Steps, s)
	return len(t.Steps) - 1
}

// EndStep sets the end of a step.
func (t *Trace) EndStep(step int, now time.Duration, outcome string) {
	if t == nil {
		return
	}
	s := &t.Steps[step]
	s.Took, s.Outcome = now-s.Start, outcome
}

// Answered sets the end of a step that brought a response: how many closer peers and
// new providers it named.
func (t *Trace) Answered(step int, now time.Duration, closer, providers int) {
	if t == nil {
		return
	}
	t.EndStep(step, now, status.OK.String())
	t.Steps[step].Closer, t.Steps[step].Providers = closer, providers
}

// Finish sets the totals. It marks probes still in flight as canceled, and the lookup too
// if its caller ended it.
func (t *Trace) Finish(r kad.Result[peer.ID], cut error) {
	t.End, t.Hops, t.Probes, t.Hedges, t.Took = r.End.String(), r.Hops, r.Probes, r.Hedges, r.Took
	if r.End == kad.Running && cut != nil {
		t.End = status.Of(cut).String()
	}
	for i := range t.Steps {
		if t.Steps[i].Outcome == "" {
			t.EndStep(i, r.Took, status.Canceled.String())
		}
	}
}
