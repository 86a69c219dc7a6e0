package transfer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/internal/patience"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// driver carries out the actions of one transfer's schedule. The goroutine of the
// transfer runs it and alone touches its fields. Requests run in goroutines of
// their own and report through channels.
type driver struct {
	t     *transfer
	set   *Set
	work  context.Context
	wg    sync.WaitGroup
	m     *schedule.Machine
	begun time.Time

	ended   chan *span
	proofs  chan int64 // proved sizes
	need    chan struct{}
	found   chan found
	heard   chan heard
	looked  chan struct{}
	granted chan grant

	permission
	spans    []*span     // in flight
	peers    []*provider // by schedule.ProviderID
	waiters  []*Waiter   // the waiters that the machine knows
	attempts providers.Attempts
	until    time.Time // when a transfer without waiters ends; zero while it has some
}

// permission is the permit of a transfer among those that fetch.
type permission struct {
	permit func()             // held while requests are in flight
	unask  context.CancelFunc // ends the wait for the permit; nil when there is none
	asks   int                // how often the permit was asked for
}

// The bounds of a transfer without waiters.
const (
	linger       = 2 * time.Second // how long it stays open for the next range
	maxLingering = 64              // most transfers that stay open
)

// lookPause returns the pause before look n, from 0, among connected peers: 0.5 s, doubled up to 32 s, ± 20 %.
func lookPause(n int) time.Duration { return jitter.Spread(500 * time.Millisecond << min(n, 6)) }

// never is longer than any wait.
const never = 1000 * time.Hour

func newDriver(t *transfer) *driver {
	cfg := t.s.cfg.Load()
	return &driver{
		t: t, set: t.s, begun: time.Now(),
		m: schedule.New(schedule.Config{
			Providers: cfg.ProvidersPerObject, Tries: cfg.Tries, Backoff: limits.Backoff,
			HedgeAfter: cfg.HedgeAfter, Pause: patience.Pause,
			Look: lookPause, Seed: rand.Uint64(),
		}),
		ended: make(chan *span), proofs: make(chan int64), need: make(chan struct{}),
		found: make(chan found), heard: make(chan heard), looked: make(chan struct{}), granted: make(chan grant),
	}
}

// run drives the transfer to its end. It returns nil when the object is whole,
// errQuit when it has no waiter, and otherwise why it failed. No request is in
// flight when run returns.
func (d *driver) run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	d.work = work
	defer func() {
		cancel()
		d.wg.Wait()
		for _, sp := range d.spans { // canceled with the work
			d.record(sp, schedule.NoHedge)
			if d.m.Complete() && sp.first.Load() == 0 && time.Since(sp.asked) >= d.set.cfg.Load().HedgeAfter {
				d.set.pool.Silent(sp.p.id)
			}
		}
		noteMeasured(d.t.trace, d.peers)
		d.release()
		d.busy()
	}()
	d.wg.Go(d.recruit)
	if d.t.ingest != nil {
		d.m.Sized(d.t.size, d.t.ingest)
	}
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		wait, done, err := d.advance()
		if done || err != nil {
			return err
		}
		timer.Reset(wait)
		select {
		case sp := <-d.ended:
			if err = d.took(sp); err != nil && d.m.Complete() {
				err = nil // the object is whole in spite of it
			}
		case size := <-d.proofs:
			err = d.proved(size)
		case f := <-d.found:
			d.addProvider(f)
		case h := <-d.heard:
			d.hear(h)
		case <-d.looked:
			d.m.Looked(d.now())
		case g := <-d.granted:
			err = d.grant(g)
		case <-d.t.wake:
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (d *driver) now() time.Duration { return time.Since(d.begun) }

// advance reports to the machine, carries out its actions and returns how long to
// wait for the next event. done says that the object is whole.
func (d *driver) advance() (wait time.Duration, done bool, err error) {
	d.tell()
	now := d.now()
	for _, a := range d.m.Advance(now) {
		switch a.Kind {
		case schedule.Done:
			return 0, true, nil
		case schedule.GiveUp:
			return 0, false, d.error()
		default:
			d.do(a)
		}
	}
	if len(d.waiters) == 0 && len(d.spans) == 0 && !d.m.Complete() {
		return d.idle()
	}
	if len(d.waiters) > 0 {
		d.busy()
	}
	if at, ok := d.m.Wake(); ok {
		return at - now, false, nil
	}
	return never, false, nil
}

// tell reports to the machine what changes without an event: waiters, readers'
// positions, the progress of spans and the throughput of providers.
func (d *driver) tell() {
	waiters := d.t.waiters.current()
	for _, w := range d.waiters {
		if !slices.Contains(waiters, w) {
			d.m.Leave(w.id)
		}
	}
	for _, w := range waiters {
		if !slices.Contains(d.waiters, w) {
			d.m.Join(w.id, w.demand())
		}
		d.m.Read(w.id, w.pos.Load())
		d.m.Patience(w.id, d.patience(w))
	}
	d.waiters = waiters
	if d.t.reread.Swap(false) {
		d.m.GroupLost()
	}
	for _, id := range d.t.takeReached() {
		if i := slices.IndexFunc(d.peers, func(p *provider) bool { return p.id == id }); i >= 0 {
			d.m.Returned(d.now(), schedule.ProviderID(i))
		}
	}
	d.progress()
	for i, p := range d.peers {
		rate, rtt := p.throughput.Measured()
		d.m.Measured(schedule.ProviderID(i), rate, rtt)
	}
	d.m.Known(d.t.src.Count())
}

// patience returns until when a waiter waits for lost providers to return. Its work has begun when something has
// arrived since it joined.
func (d *driver) patience(w *Waiter) time.Duration {
	received := d.t.received.Load() > 0
	latest := d.t.begun.Add(time.Duration(d.t.latest.Load()))
	if received && latest.After(w.joined) {
		patience.Begin(w.ctx)
	} else {
		latest = w.joined
	}
	until := patience.Until(w.ctx, received, latest)
	if until.IsZero() {
		return 0
	}
	return until.Sub(d.begun)
}

// away tells the machine whether a provider that failed with err may return.
func (d *driver) away(id schedule.ProviderID, err error) {
	if err != nil && providers.MayReturn(err) {
		d.m.Away(id)
	}
}

// do carries out an action.
func (d *driver) do(a schedule.Action) {
	switch a.Kind {
	case schedule.Ask:
		d.start(a)
	case schedule.Cancel:
		d.span(a.Request).giveUp(reasons[a.Why])
	case schedule.Trim:
		d.span(a.Request).hi.Store(a.At)
	case schedule.Notify:
		sp := d.span(a.Request)
		sp.notify.Store(a.At)
		if sp.next.Load() >= a.At {
			d.t.wakeDriver()
		}
	case schedule.Follow:
		if d.waiter(a.Waiter).followTo(a.At) {
			d.t.wakeDriver()
		}
	case schedule.Fail:
		d.waiter(a.Waiter).fail(d.error())
	case schedule.Find:
		select {
		case d.need <- struct{}{}:
		case <-d.work.Done():
		}
	case schedule.Renew:
		d.t.src.Renew()
		for _, p := range d.peers {
			d.set.pool.Redial(p.id)
		}
	case schedule.Question:
		d.question(a.Provider, a.At)
	case schedule.Look:
		d.wg.Go(func() {
			d.t.src.Look(d.work)
			select {
			case d.looked <- struct{}{}:
			case <-d.work.Done():
			}
		})
	case schedule.Acquire:
		d.acquire()
	case schedule.Release:
		d.release()
	}
}

func (d *driver) span(id schedule.RequestID) *span {
	return d.spans[slices.IndexFunc(d.spans, func(sp *span) bool { return sp.id == id })]
}

func (d *driver) waiter(id schedule.WaiterID) *Waiter {
	return d.waiters[slices.IndexFunc(d.waiters, func(w *Waiter) bool { return w.id == id })]
}

// idle ends a transfer without waiters: after linger, or at once when its size is
// not known.
func (d *driver) idle() (wait time.Duration, done bool, err error) {
	now := time.Now()
	if d.until.IsZero() {
		d.until = now
		if d.lingers() && d.set.lingering.Add(1) <= maxLingering {
			d.until = now.Add(linger)
		}
	}
	if wait := d.until.Sub(now); wait > 0 {
		return wait, false, nil
	}
	if d.t.waiters.closeIfNone() {
		return 0, false, errQuit
	}
	return never, false, nil // a waiter joined meanwhile and has sent a wake-up
}

// lingers reports whether another range of the object may continue what the transfer has stored.
func (d *driver) lingers() bool { return d.t.ingest != nil && d.t.stream == nil }

// busy ends the time without waiters.
func (d *driver) busy() {
	if !d.until.IsZero() && d.lingers() {
		d.set.lingering.Add(-1)
	}
	d.until = time.Time{}
}

// start sends a request.
func (d *driver) start(a schedule.Action) {
	sp := &span{
		t: d.t, id: a.Request, p: d.peers[a.Provider], run: a.Run, proof: a.Proof, asked: time.Now(),
	}
	sp.next.Store(a.Run.Lo)
	sp.hi.Store(a.Run.Hi)
	ctx, cancel := context.WithCancelCause(d.work)
	sp.cancel = cancel
	d.spans = append(d.spans, sp)
	d.wg.Go(func() {
		defer cancel(nil)
		err := d.set.pool.Guard(d.t.lookupID, func() error { sp.fetch(ctx, d.proofs); return nil })
		if err != nil {
			sp.err = err
		}
		select {
		case d.ended <- sp:
		case <-d.work.Done():
		}
	})
}

// took records that a request has ended. Its error is one that no other provider
// can mend.
func (d *driver) took(sp *span) error {
	d.spans = slices.DeleteFunc(d.spans, func(o *span) bool { return o == sp })
	progressed := sp.fresh+sp.extra > 0
	if progressed {
		d.set.pool.Served(d.t.root, sp.p.id)
	}
	final := sp.err != nil && (providers.IsFinal(sp.err) || d.work.Err() != nil)
	res := schedule.Result{Fresh: sp.fresh, Extra: sp.extra}
	if !final {
		res.Outcome = status.Of(sp.err)
		res.Again = providers.WorthRetrying(sp.err, progressed)
	}
	d.m.Progress(sp.id, sp.progress())
	v := d.m.Ended(d.now(), sp.id, res)
	if !progressed && errors.Is(sp.err, reasons[schedule.Late]) {
		d.set.pool.Silent(sp.p.id)
	}
	d.set.m.hedge(v.Hedge)
	d.record(sp, v.Hedge)
	if v.GaveUp {
		d.t.trace.GiveUp(sp.p.id, sp.err)
	}
	if v.Fault {
		d.set.pool.Failed(d.t.root, sp.p.id, d.t.lookupID, sp.err)
		d.attempts.Note(sp.p.id, sp.err)
		if !progressed && (v.GaveUp || res.Outcome != status.NotFound) || res.Outcome == status.Corrupt {
			d.t.src.Refuted(sp.p.id, sp.err)
		}
		d.away(schedule.ProviderID(slices.Index(d.peers, sp.p)), sp.err)
	}
	if v.Retry {
		d.set.pool.Retried()
	}
	if final {
		return sp.err
	}
	return nil
}

// proved opens the ingest when the size is proved.
func (d *driver) proved(size int64) error {
	if d.t.ingest != nil {
		return nil
	}
	if err := d.t.begin(d.work, size); err != nil {
		return err
	}
	d.progress()
	d.m.Sized(size, d.t.ingest)
	return nil
}

// progress tells the machine how far the requests have come.
func (d *driver) progress() {
	for _, sp := range d.spans {
		d.m.Progress(sp.id, sp.progress())
	}
}

// error returns the error that says how all providers failed.
func (d *driver) error() error {
	return d.attempts.Error(d.t.root, d.t.lookupID, d.t.src.Failure())
}
