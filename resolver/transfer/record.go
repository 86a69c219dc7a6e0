package transfer

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/schedule"
	"allium/resolver/trace"
)

// record adds a request that has ended to the record of the transfer.
func (sp *span) record(hedge schedule.HedgeResult) {
	s := trace.Span{
		Sent: time.Duration(sp.sent.Load()), First: time.Duration(sp.first.Load()),
		From: sp.run.Lo * b3.GroupSize, To: sp.run.Hi * b3.GroupSize,
		Bytes: sp.bytes, Extra: sp.extra * b3.GroupSize, Hedge: hedgeWords[hedge],
	}
	if sp.t.ingest != nil { // the size is known
		s.To, s.Extra = min(s.To, sp.t.size), min(s.Extra, sp.t.size)
	}
	sp.t.trace.Span(sp.p.id, s, sp.asked, sp.err)
}

// hedgeWords are the results of a hedge in a record.
var hedgeWords = map[schedule.HedgeResult]string{
	schedule.HedgeWon: "won", schedule.HedgeLost: "lost", schedule.HedgeFailed: "failed",
}

// noteMeasured adds what is known of the providers to the record of the transfer.
func noteMeasured(t *trace.Lookup, peers []*provider) {
	for _, p := range peers {
		rate, rtt := p.throughput.Measured()
		t.Measured(p.id, rate, rtt)
	}
}

// noteHeard records that a provider, which lacked what it was asked for, has no other part either.
func noteHeard(t *trace.Lookup, by peer.ID, h heard) {
	switch {
	case h.err != nil:
		t.GiveUp(by, h.err)
	case h.have == b3.Absent:
		t.GiveUp(by, status.Errorf(status.NotFound, "the provider has no part of the object"))
	case h.have == b3.Complete:
		t.GiveUp(by, status.Errorf(status.NotFound,
			"the provider says that it has the object and did not send it"))
	}
}

// leastWait is the shortest wait for a place that the record of a transfer mentions.
const leastWait = time.Millisecond

// noteWait records how the wait for a place ended.
func noteWait(t *trace.Lookup, took time.Duration, err error) {
	switch {
	case err != nil && status.Of(err) != status.Canceled:
		t.Failed(trace.Permit, took, err)
	case err == nil && took >= leastWait:
		t.Step(trace.Step{Source: trace.Permit, Verdict: trace.Granted, Took: took})
	}
}

// NoteDamage records that the store's copy of the object is damaged, if the error here of
// the store says so.
func (w *Waiter) NoteDamage(here error) {
	if status.Of(here) == status.Corrupt {
		w.t.trace.Failed(trace.Store, 0, here)
	}
}
