package resolver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// Patience with a span: it is late when nothing came of it for unmeasured, or,
// of a peer whose pace is known, lateAfter past the time that something should
// have come.
const (
	unmeasured = 250 * time.Millisecond
	lateAfter  = 30 * time.Millisecond
)

// provider is a peer that may have the object. It belongs to the schedule.
type provider struct {
	id   peer.ID
	pace *pace

	inflight int
	doubted  int       // requests that were given to another as well
	fails    int       // requests in a row that brought nothing
	rest     time.Time // it is left alone until then
	lost     bool      // not to be asked for this object again

	partial bool  // it says that it has a part of the object
	noProof bool  // it cannot prove the size
	lacks   []run // what it did not have
	misses  int   // answers in a row that it does not have the span
	limit   int64 // groups asked for at once; 0: as its pace allows
	fine    bool  // it is asked for single groups where it did not have minSpan
}

// free reports whether p may be asked.
func (p *provider) free(now time.Time) bool { return !p.lost && !now.Before(p.rest) }

// run is groups [lo, hi).
type run struct{ lo, hi int64 }

// span is one request: a run of groups, from one provider.
//
// Invariant: the groups [lo, next) are here. The worker that runs the request
// advances next; the schedule may lower hi, and the worker then ends the
// request there.
type span struct {
	t    *transfer
	p    *provider
	lo   int64
	last int64 // hi of the request
	next atomic.Int64
	hi   atomic.Int64
	poke atomic.Int64 // the group at which the schedule wants to be nudged

	asked time.Time
	sent  atomic.Int64 // when the request went out, in nanoseconds after asked; 0: it has not
	first atomic.Int64 // when the first item came, likewise
	alive atomic.Int64 // when the latest group came, likewise

	proof   bool // the proof of the size comes first
	hedge   bool // it doubles another span
	doubted bool // it is doubled by another
	twin    bool // either of these
	cancel  context.CancelCauseFunc
	gaveUp  error // why the schedule ended it

	fresh int64 // groups that were not here; the worker's until it ended
	extra int64 // groups that were
	err   error
}

// errEnough ends a request of which the rest is not needed.
var errEnough = final(status.Errorf(status.Canceled, "resolver: the rest of the span comes from elsewhere"))

// Why a span is given up.
var (
	errLate     = status.Errorf(status.Timeout, "another provider was faster")
	errOvertook = status.Errorf(status.Canceled, "another provider was faster")
	errUnwanted = status.Errorf(status.Canceled, "nobody waits for it any more")
)

// giveUp ends the request.
func (sp *span) giveUp(why error) {
	if sp.gaveUp == nil {
		sp.gaveUp = why
		sp.cancel(why)
	}
}

// left is how many groups are still to come.
func (sp *span) left() int64 { return max(0, sp.hi.Load()-sp.next.Load()) }

func (sp *span) since() int64 { return max(1, int64(time.Since(sp.asked))) }

// speed is the measured rate of the provider, or that of the span so far.
func (sp *span) speed() float64 {
	if rate, _ := sp.p.pace.measured(); rate > 0 {
		return rate
	}
	n := sp.next.Load() - sp.lo - 1
	if n < paceLeast {
		return 0
	}
	return rateOf(n, time.Duration(sp.alive.Load()-sp.first.Load()))
}

func (sp *span) rtt() time.Duration {
	_, rtt := sp.p.pace.measured()
	return rtt
}

// ends is the time the rest should take; unmeasured when the pace is unknown.
func (sp *span) ends() time.Duration {
	rate := sp.speed()
	if rate == 0 {
		return unmeasured
	}
	d := timeFor(sp.left(), rate)
	if sp.first.Load() == 0 {
		d += sp.rtt()
	}
	return d
}

// due is the time at which the span is late, unless something comes before.
func (sp *span) due() time.Time {
	sent, alive := time.Duration(sp.sent.Load()), time.Duration(sp.alive.Load())
	rate, rtt := sp.p.pace.measured()
	if rate == 0 || sent == 0 {
		return sp.asked.Add(max(sent, alive) + unmeasured)
	}
	next := max(sent, alive) + rtt + timeFor(1, rate)
	all := sent + rtt + timeFor(sp.hi.Load()-sp.lo, rate)
	return sp.asked.Add(min(next, all) + lateAfter)
}

// request is what the span asks for.
func (sp *span) request() object.GetRequest {
	req := object.GetRequest{Objs: []b3.Root{sp.t.root}, SizeProof: sp.proof}
	r := b3.Range{Start: sp.lo * b3.GroupSize, End: sp.last * b3.GroupSize}
	if !sp.proof {
		r.End = min(r.End, sp.t.size)
	}
	req.Ranges = []b3.Range{r}
	return req
}

// fetch runs the request. Only then are fresh, extra and err for the schedule.
func (sp *span) fetch(ctx context.Context, proofs chan<- int64) {
	k := &spanSink{sp: sp, ctx: ctx, proofs: proofs, proving: sp.proof}
	err := sp.t.r.get(ctx, sp.p.id, sp.request(), k, func() { sp.sent.Store(sp.since()) })
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil:
		err = k.end
	}
	if sp.fresh+sp.extra > 0 {
		sp.t.sent(sp.p.id)
	}
	sp.p.pace.delivered(sp.fresh+sp.extra-1, time.Duration(sp.alive.Load()-sp.first.Load()))
	sp.err = err
}

// spanSink takes the answer to one request.
type spanSink struct {
	sp      *span
	ctx     context.Context
	proofs  chan<- int64 // sizes that were proved, to the schedule
	proving bool         // items are those of the size proof
	spine   []b3.Proved  // its parents
	end     error        // what the peer said of the object
}

// Begin implements object.Sink. The size is a claim; it only has to agree with
// one that was proved.
func (k *spanSink) Begin(_ int, size int64) error {
	select {
	case <-k.sp.t.known:
		return k.sized(size)
	default:
		return nil
	}
}

func (k *spanSink) sized(size int64) error {
	if size != k.sp.t.size {
		return status.Errorf(status.Corrupt, "%d bytes are claimed, %d were proved", size, k.sp.t.size)
	}
	return nil
}

// Item implements object.Sink.
func (k *spanSink) Item(_ int, p b3.Proved) error {
	sp := k.sp
	if sp.first.Load() == 0 {
		now := sp.since()
		sp.first.Store(now)
		sp.alive.Store(now)
		sp.p.pace.answered(time.Duration(now - sp.sent.Load()))
	}
	switch {
	case k.proving:
		return k.prove(p)
	case p.IsParent():
		return final(sp.t.ingest.Write(p))
	}
	next := sp.next.Load()
	if p.Group() != next || next >= sp.last {
		return status.Errorf(status.Upstream, "group %d came in place of %d", p.Group(), next)
	}
	if err := k.store(p); err != nil {
		return err
	}
	next++
	sp.alive.Store(sp.since())
	sp.next.Store(next)
	if next == sp.poke.Load() {
		sp.t.nudge()
	}
	if next >= sp.hi.Load() && next < sp.last && next < sp.t.groups() {
		return errEnough
	}
	return nil
}

// store writes a group that is not here yet.
func (k *spanSink) store(p b3.Proved) error {
	t := k.sp.t
	if t.ingest.Has(p.Group()) {
		k.sp.extra++
		t.r.m.extraBytes.Add(float64(len(p.Data())))
		return nil
	}
	if err := t.ingest.Write(p); err != nil {
		return final(err)
	}
	k.sp.fresh++
	t.got(len(p.Data()))
	return nil
}

// prove takes the items of the size proof. Its last one, the last group, makes
// the size a fact and the ingest possible; then they are stored.
func (k *spanSink) prove(p b3.Proved) error {
	if !p.SizeProved() {
		k.spine = append(k.spine, p.Clone())
		return nil
	}
	t := k.sp.t
	select {
	case <-t.known:
	case k.proofs <- p.Size():
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	select {
	case <-t.known:
	case <-k.ctx.Done():
		select {
		case <-t.known: // then the group is not lost
		default:
			return k.ctx.Err()
		}
	}
	if err := k.sized(p.Size()); err != nil {
		return err
	}
	for _, parent := range k.spine {
		if err := t.ingest.Write(parent); err != nil {
			return final(err)
		}
	}
	k.proving, k.spine = false, nil
	if t.ingest.Has(p.Group()) {
		return nil
	}
	if err := t.ingest.Write(p); err != nil {
		return final(err)
	}
	t.got(len(p.Data()))
	t.sent(k.sp.p.id)
	return nil
}

// End implements object.Sink.
func (k *spanSink) End(_ int, err error) error {
	k.end = err
	return nil
}
