package resolver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"allium/internal/latch"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
	"allium/resolver/transfer"
	"allium/resolver/tree"
)

// Resolver fetches objects. Its methods are safe for concurrent use while Run
// runs. They return status.NotReady before Run and status.Draining after it.
type Resolver struct {
	cfg    Config
	local  Local
	ring   *trace.Ring
	m      *metrics
	pool   *providers.Pool
	denied func(b3.Root) error

	observe   func(TransferEvent)
	transfers *transfer.Set
	trees     *tree.Fetcher

	run atomic.Pointer[life]
}

// life is one call of Run. Work starts under its context, and Run waits for it.
type life struct {
	ctx  context.Context
	work latch.Latch
}

// New returns a resolver. It starts nothing.
func New(cfg Config, d Deps) (*Resolver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for _, dep := range []struct {
		name    string
		missing bool
	}{
		{"Local", d.Local == nil},
		{"Providers", d.Providers == nil},
		{"Objects", d.Objects == nil},
		{"Dialer", d.Dialer == nil},
	} {
		if dep.missing {
			return nil, fmt.Errorf("resolver: Deps.%s is missing", dep.name)
		}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	m := newMetrics(d.Metrics)
	pool, err := providers.New(cfg.providers(), providers.Deps{
		Finder: d.Providers, Hints: d.Hints, Client: d.Objects, Dialer: d.Dialer, Self: d.Self,
		Log: d.Log, Metrics: d.Metrics, Latency: m.latency, Limits: d.Limits,
	})
	if err != nil {
		return nil, err
	}
	r := &Resolver{
		cfg: cfg, local: d.Local, ring: d.Trace, m: m, pool: pool,
		transfers: transfer.New(cfg.transfers(), transfer.Deps{
			Local: d.Local, Pool: pool, Trace: d.Trace, Metrics: d.Metrics, Limits: d.Limits, Received: m.received,
			Observe: d.Observe,
		}),
		observe: d.Observe,
	}
	if r.observe == nil {
		r.observe = func(TransferEvent) {}
	}
	if r.denied = d.Denied; r.denied == nil {
		r.denied = func(b3.Root) error { return nil }
	}
	r.trees = tree.New(cfg.trees(), tree.Deps{
		Local: d.Local, Pool: pool, Transfers: r.transfers, Denied: r.denied,
		Received: m.received.WithLabelValues("tree"), Limits: d.Limits,
	})
	return r, nil
}

// Run admits fetches and drops expired lookups from the cache. When ctx ends it
// cancels the work in flight and returns nil after the last goroutine has ended.
// It may then be called again.
func (r *Resolver) Run(ctx context.Context, ready func()) error {
	l := &life{ctx: ctx}
	if old := r.run.Load(); old != nil && !old.work.Closed() || !r.run.CompareAndSwap(old, l) {
		return errors.New("the resolver already runs")
	}
	ready()
	tick := time.NewTicker(r.cfg.PositiveTTL)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			r.pool.Sweep(now)
		case <-ctx.Done():
			l.work.Wait()
			return nil
		}
	}
}

// admit admits a call. Run waits until the caller calls l.work.Leave.
func (r *Resolver) admit() (l *life, err error) {
	l = r.run.Load()
	switch {
	case l == nil:
		return nil, status.Errorf(status.NotReady, "the resolver has not started; try again in a moment")
	case !l.enter():
		return nil, providers.ErrDraining
	}
	return l, nil
}

// begin admits a call. The context work ends with ctx or with Run. The caller
// calls done when the call ends.
func (r *Resolver) begin(ctx context.Context) (work context.Context, l *life, done func(), err error) {
	if l, err = r.admit(); err != nil {
		return nil, nil, nil, err
	}
	work, end := l.bind(ctx)
	return work, l, func() { end(); l.work.Leave() }, nil
}

// bind returns a copy of ctx that also ends with the life.
func (l *life) bind(ctx context.Context) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(providers.ErrDraining) })
	return work, func() { stop(); cancel(nil) }
}

// enter admits one piece of work, unless Run has ended.
func (l *life) enter() bool { return l.ctx.Err() == nil && l.work.Enter() }

// Context implements [providers.Tasks].
func (l *life) Context() context.Context { return l.ctx }

// Go implements [providers.Tasks].
func (l *life) Go(f func()) bool { return l.ctx.Err() == nil && l.work.Go(f) }

// Providers yields the peers that claim to have an object, each once. Unless
// opt.Fresh is set, peers that announced it by gossip come first and at once.
// Then come the peers that the DHT finds, as they are found, for at most
// Config.Deadline. When the search fails, by a timeout or by an error of the DHT,
// the sequence ends with that error. It is empty when no peer has the object.
func (r *Resolver) Providers(
	ctx context.Context, root b3.Root, opt ProvidersOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		lookup := r.ring.Begin(trace.Providers, trace.Key{Root: root}, r.cfg.Deadline)
		lookup.Call()
		work, l, done, err := r.begin(ctx)
		if err != nil {
			lookup.End(err)
			yield(record.Provider{}, lookup.Mark(err))
			return
		}
		defer done()
		var failed error
		defer func() { lookup.End(failed) }()
		for p, err := range r.pool.Find(work, l, root, opt) {
			failed = lookup.Mark(drainingError(work, err))
			if !yield(p, failed) {
				return
			}
		}
	}
}
