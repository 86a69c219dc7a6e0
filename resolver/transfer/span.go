package transfer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// span is one request to one provider for a run of groups.
//
// Invariant: the groups [run.Lo, next) are stored. The goroutine of the request
// advances next. The driver may lower hi; the goroutine then ends the request there.
type span struct {
	t     *transfer
	id    schedule.RequestID
	p     *provider
	run   schedule.Run
	proof bool // the proof of the size comes first

	next   atomic.Int64
	hi     atomic.Int64
	notify atomic.Int64 // the group at which the driver is woken

	times
	cancel context.CancelCauseFunc
	result // written by the goroutine of the request, read by the driver when it has ended
}

// times are when something happened to a request, in nanoseconds after asked. They are 0 before it happens.
type times struct {
	asked time.Time
	sent  atomic.Int64 // when the request went out
	first atomic.Int64 // when the first item arrived
	alive atomic.Int64 // when the latest group arrived
}

func (t *times) since() int64 { return max(1, int64(time.Since(t.asked))) }

// silent reports whether nothing has arrived for so long.
func (t *times) silent(after time.Duration) bool {
	return t.first.Load() == 0 && time.Since(t.asked) >= after
}

// result is the result of a request.
type result struct {
	fresh int64 // received groups that were missing
	extra int64 // received groups that were stored already
	bytes int64 // received bytes that were missing, with those of the size proof
	err   error
}

// progressed reports whether groups were received.
func (r *result) progressed() bool { return r.fresh+r.extra > 0 }

// errEnough ends a request whose other groups come from another provider.
var errEnough = providers.Final(status.Errorf(status.Canceled, "another provider sends the rest"))

// reasons are the causes of canceled requests.
var reasons = map[schedule.Why]error{
	schedule.Late:      status.Errorf(status.Timeout, "another provider was faster"),
	schedule.Overtaken: status.Errorf(status.Canceled, "another provider was faster"),
	schedule.Unwanted:  status.Errorf(status.Canceled, "no reader needs it any more"),
}

// giveUp ends the request.
func (sp *span) giveUp(why error) { sp.cancel(why) }

// progress returns how far the request has come.
func (sp *span) progress() schedule.Progress {
	return schedule.Progress{
		Next: sp.next.Load(), Sent: time.Duration(sp.sent.Load()),
		First: time.Duration(sp.first.Load()), Alive: time.Duration(sp.alive.Load()),
	}
}

// request returns the request to send.
func (sp *span) request() object.GetRequest {
	req := object.GetRequest{Objs: []b3.Root{sp.t.root}, SizeProof: sp.proof}
	r := b3.Range{Start: sp.run.Lo * b3.GroupSize, End: sp.run.Hi * b3.GroupSize}
	if !sp.proof {
		r.End = min(r.End, sp.t.size)
	}
	req.Ranges = []b3.Range{r}
	return req
}

// fetch runs the request. Afterwards fresh, extra and err are valid.
func (sp *span) fetch(ctx context.Context, proofs chan<- int64) {
	k := &spanSink{sp: sp, ctx: ctx, proofs: proofs, proving: sp.proof}
	err := sp.t.s.pool.Get(sp.t.trace.Context(ctx), sp.p.id, sp.request(), k, func() { sp.sent.Store(sp.since()) })
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil:
		err = k.end
	}
	if sp.progressed() {
		sp.t.peers.sent(sp.p.id)
	}
	sp.p.throughput.Delivered(sp.fresh+sp.extra-1, time.Duration(sp.alive.Load()-sp.first.Load()))
	sp.err = err
}

// spanSink takes the answer to one request.
type spanSink struct {
	sp      *span
	ctx     context.Context
	proofs  chan<- int64 // proved sizes, for the driver
	proving bool         // the items belong to the size proof
	spine   []b3.Proved  // the parents of the size proof
	end     error        // the provider's result for the object
}

// Begin implements [object.Sink]. The size is a claim: it must agree with the
// proved size, if that is known.
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

// Item implements [object.Sink].
func (k *spanSink) Item(_ int, p b3.Proved) error {
	sp := k.sp
	if sp.first.Load() == 0 {
		now := sp.since()
		sp.first.Store(now)
		sp.alive.Store(now)
		sp.p.throughput.Answered(time.Duration(now - sp.sent.Load()))
	}
	switch {
	case k.proving:
		return k.prove(p)
	case p.IsParent():
		return providers.Final(sp.t.ingest.Write(p))
	}
	next := sp.next.Load()
	if p.Group() != next || next >= sp.run.Hi {
		return status.Errorf(status.Upstream, "the provider sent group %d in place of %d", p.Group(), next)
	}
	if err := k.store(p); err != nil {
		return err
	}
	next++
	sp.alive.Store(sp.since())
	sp.next.Store(next)
	if next == sp.notify.Load() {
		sp.t.wakeDriver()
	}
	if next >= sp.hi.Load() && next < sp.run.Hi && next < sp.t.groups() {
		return errEnough
	}
	return nil
}

// store writes a group unless it is stored already.
func (k *spanSink) store(p b3.Proved) error {
	t := k.sp.t
	if t.ingest.Has(p.Group()) {
		k.sp.extra++
		t.s.m.extraBytes.Add(float64(len(p.Data())))
		return nil
	}
	if err := t.ingest.Write(p); err != nil {
		return providers.Final(err)
	}
	t.fills.feed(p)
	k.sp.fresh++
	k.sp.bytes += int64(len(p.Data()))
	t.got(len(p.Data()))
	return nil
}

// prove collects the items of the size proof. The last item is the object's last
// group and proves the size. prove then waits for the driver to open the ingest, and
// stores the items.
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
		case <-t.known: // the ingest is open, so the group can be kept
		default:
			return k.ctx.Err()
		}
	}
	if err := k.sized(p.Size()); err != nil {
		return err
	}
	for _, parent := range k.spine {
		if err := t.ingest.Write(parent); err != nil {
			return providers.Final(err)
		}
	}
	k.proving, k.spine = false, nil
	if t.ingest.Has(p.Group()) {
		return nil
	}
	if err := t.ingest.Write(p); err != nil {
		return providers.Final(err)
	}
	t.fills.feed(p)
	k.sp.bytes += int64(len(p.Data()))
	t.got(len(p.Data()))
	t.peers.sent(k.sp.p.id)
	return nil
}

// End implements [object.Sink].
func (k *spanSink) End(_ int, err error) error {
	k.end = err
	return nil
}
