package transfer

import (
	"context"
	"errors"
	"slices"
	"time"

	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// requests are the requests of a transfer in flight.
type requests struct {
	*drive
	spans  []*span
	ended  chan *span
	proofs chan int64 // proved sizes
}

func (r *requests) span(id schedule.RequestID) *span {
	return r.spans[slices.IndexFunc(r.spans, func(sp *span) bool { return sp.id == id })]
}

// start sends a request.
func (r *requests) start(a schedule.Action, p *provider) {
	sp := &span{
		t: r.t, id: a.Request, p: p, run: a.Run, proof: a.Proof, times: times{asked: time.Now()},
	}
	sp.next.Store(a.Run.Lo)
	sp.hi.Store(a.Run.Hi)
	ctx, cancel := context.WithCancelCause(r.work)
	sp.cancel = cancel
	r.spans = append(r.spans, sp)
	r.wg.Go(func() {
		defer cancel(nil)
		err := r.set.pool.Guard(r.t.trace.ID().String(), func() error { sp.fetch(ctx, r.proofs); return nil })
		if err != nil {
			sp.err = err
		}
		send(r.work, r.ended, sp)
	})
}

// took records that a request has ended. Its error is one that no other provider
// can mend.
func (r *requests) took(sp *span) error {
	r.spans = slices.DeleteFunc(r.spans, func(o *span) bool { return o == sp })
	if sp.progressed() {
		r.set.pool.Served(r.t.root, sp.p.id)
	}
	final := sp.err != nil && (providers.IsFinal(sp.err) || r.work.Err() != nil)
	res := schedule.Result{Fresh: sp.fresh, Extra: sp.extra}
	if !final {
		res.Outcome = status.Of(sp.err)
		res.Again = providers.WorthRetrying(sp.err, sp.progressed())
	}
	r.m.Progress(sp.id, sp.progress())
	v := r.m.Ended(r.now(), sp.id, res)
	if !sp.progressed() && errors.Is(sp.err, reasons[schedule.Late]) {
		r.set.pool.Silent(sp.p.id)
	}
	r.set.m.hedge(v.Hedge)
	sp.record(v.Hedge)
	if v.GaveUp {
		r.t.trace.GiveUp(sp.p.id, sp.err)
	}
	if v.Fault {
		r.set.pool.Failed(r.t.root, sp.p.id, r.t.trace.ID().String(), sp.err)
		r.attempts.Note(sp.p.id, sp.err)
		if !sp.progressed() && (v.GaveUp || res.Outcome != status.NotFound) || res.Outcome == status.Corrupt {
			r.t.src.Refuted(sp.p.id, sp.err)
		}
		r.away(sp.p.number, sp.err)
	}
	if v.Retry {
		r.set.pool.Retried()
	}
	if final {
		return sp.err
	}
	return nil
}

// progress tells the machine how far the requests have come.
func (r *requests) progress() {
	for _, sp := range r.spans {
		r.m.Progress(sp.id, sp.progress())
	}
}

// canceled records the requests that have ended with the work.
func (r *requests) canceled() {
	for _, sp := range r.spans {
		sp.record(schedule.NoHedge)
		if r.m.Complete() && sp.silent(r.set.cfg.Load().HedgeAfter) {
			r.set.pool.Silent(sp.p.id)
		}
	}
}
