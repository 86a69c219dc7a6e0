package transfer

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/internal/patience"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// driver carries out the actions of one transfer's schedule. The goroutine of the
// transfer runs it and alone touches its fields. Requests run in goroutines of
// their own and report through channels.
type driver struct {
	*drive // of all parts
	requests
	supply
	permission

	waiters []*Waiter // the waiters that the machine knows
	until   time.Time // when a transfer without waiters ends; zero while it has some
}

// drive is one run of a driver. The parts of the driver share it.
type drive struct {
	t        *transfer
	set      *Set
	work     context.Context
	wg       sync.WaitGroup
	m        *schedule.Machine
	begun    time.Time
	attempts providers.Attempts
}

func (d *drive) now() time.Duration { return time.Since(d.begun) }

// away tells the machine whether a provider that failed with err may return.
func (d *drive) away(id schedule.ProviderID, err error) {
	if err != nil && providers.MayReturn(err) {
		d.m.Away(id)
	}
}

// error returns the error that says how all providers failed.
func (d *drive) error() error {
	return d.attempts.Error(d.t.root, d.t.trace.ID().String(), d.t.src.Failure())
}

// send sends v, unless ctx ends first. It reports whether it has.
func send[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
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
	d := &drive{
		t: t, set: t.s, begun: time.Now(),
		m: schedule.New(schedule.Config{
			Providers: cfg.ProvidersPerObject, Tries: cfg.Tries, Backoff: limits.Backoff,
			HedgeAfter: cfg.HedgeAfter, Pause: patience.Pause,
			Look: lookPause, Seed: rand.Uint64(),
		}),
	}
	return &driver{
		drive:    d,
		requests: requests{drive: d, ended: make(chan *span), proofs: make(chan int64)},
		supply: supply{
			drive: d, need: make(chan struct{}), found: make(chan found), heard: make(chan heard),
			looked: make(chan struct{}),
		},
		permission: permission{drive: d, granted: make(chan grant)},
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
		d.canceled()
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
	d.returned(d.t.peers.takeReached())
	d.progress()
	d.measured()
	d.m.Known(d.t.src.Count())
}

// patience returns until when a waiter waits for lost providers to return. Its work has begun when something has
// arrived since it joined.
func (d *driver) patience(w *Waiter) time.Duration {
	received := d.t.arrivals.bytes.Load() > 0
	latest := d.t.arrivals.begun.Add(time.Duration(d.t.arrivals.latest.Load()))
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

// do carries out an action.
func (d *driver) do(a schedule.Action) {
	switch a.Kind {
	case schedule.Ask:
		d.start(a, d.peers[a.Provider])
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
		send(d.work, d.need, struct{}{})
	case schedule.Renew:
		d.renew()
	case schedule.Question:
		d.question(a.Provider, a.At)
	case schedule.Look:
		d.look()
	case schedule.Acquire:
		d.acquire()
	case schedule.Release:
		d.release()
	}
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
