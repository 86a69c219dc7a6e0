package resolver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/internal/latch"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/names/lookup"
	"allium/resolver/peerindex"
	"allium/resolver/providers"
	"allium/resolver/trace"
	"allium/resolver/transfer"
	"allium/resolver/tree"
)

// Resolver fetches objects. Its methods are safe for concurrent use while Run
// runs. They return status.NotReady before Run and status.Draining after it.
type Resolver struct {
	cfg    *atomic.Pointer[Config] // a look-up reads it once
	local  Local
	ring   *trace.Ring
	m      *metrics
	pool   *providers.Pool
	names  *lookup.Names // nil without Deps.Names
	filter policy.Filter
	warmup warmup

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
	d.Env.SetDefaults()
	live := &atomic.Pointer[Config]{}
	live.Store(&cfg)
	names := lookup.Finder(d.Names)
	if peers, _ := cfg.ask(); len(peers) > 0 && d.Index != nil { // Validate reported the error
		asked := peerindex.New(peerindex.Config{
			Peers: peers, HedgeAfter: func() time.Duration { return live.Load().HedgeAfter },
		}, peerindex.Deps{
			Index: d.Index, Dialer: d.Dialer, Providers: d.Providers, Names: names,
		})
		d.Providers = asked
		if names != nil {
			names = asked
		}
	}
	if !cfg.AskConnected {
		d.Serving = nil
	}
	m := newMetrics(d.Metrics)
	pool, err := providers.New(cfg.providers(), providers.Deps{
		Env: d.Env, Finder: d.Providers, Hints: d.Hints, Client: d.Objects, Dialer: d.Dialer, Self: d.Self,
		Has: d.Has, About: d.About, Joining: d.Joining, Region: d.Region,
		Connected: d.Serving,
		Latency:   m.latency,
	})
	if err != nil {
		return nil, err
	}
	r := &Resolver{
		cfg: live, local: d.Local, ring: d.Trace, m: m, pool: pool,
		warmup: warmup{log: d.Log, connected: d.Connected},
		transfers: transfer.New(cfg.transfers(), transfer.Deps{
			Env: d.Env, Local: d.Local, Pool: pool, Trace: d.Trace, Received: m.received,
			Observe: d.Observe,
		}),
		observe: d.Observe,
	}
	if r.observe == nil {
		r.observe = func(TransferEvent) {}
	}
	if r.warmup.connected == nil {
		r.warmup.connected = func() bool { return true }
	}
	if r.filter = d.Filter; r.filter == nil {
		r.filter = policy.AllowAll{}
	}
	if names != nil {
		r.names = lookup.New(cfg.names(), lookup.Deps{
			Env: d.Env, Finder: names, Seen: d.Names.Seen(), Filter: r.filter,
		})
	}
	r.trees = tree.New(cfg.trees(), tree.Deps{
		Env: d.Env, Local: d.Local, Pool: pool, Transfers: r.transfers, Filter: r.filter,
		Received: m.received.WithLabelValues("tree"),
	})
	return r, nil
}

// Reconfigure applies the hot fields of a valid configuration at once. Lookups and fetches that run keep theirs.
func (r *Resolver) Reconfigure(cfg Config) {
	r.cfg.Store(&cfg)
	r.pool.Reconfigure(cfg.providers())
	r.transfers.Reconfigure(cfg.transfers())
	r.trees.Reconfigure(cfg.trees())
	if r.names != nil {
		r.names.Reconfigure(cfg.names())
	}
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
	if roots, _ := r.cfg.Load().warmup(); len(roots) > 0 {
		l.Go(func() { r.warmup.run(l, r, roots) })
	}
	tick := time.NewTicker(r.cfg.Load().PositiveTTL)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			r.pool.Sweep(now)
		case <-ctx.Done():
			l.work.CloseAndWait()
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

// Resolve finds the providers of an object, the best first. It looks in the cache, in
// this node's store, among the peers that served the object or announced it, and in the
// DHT, in this order and for at most Config.Deadline.
//
// Errors are denied, not_found, timeout, no_bootstrap, busy when too many lookups run,
// and ctx's.
func (r *Resolver) Resolve(ctx context.Context, root b3.Root, q Query) (Answer, error) {
	if a, ok, err := r.Cached(status.ParentOf(ctx), root, q); ok {
		return a, err
	}
	lookup := r.ring.BeginUnder(trace.ParentOf(ctx), trace.Providers, trace.Key{Root: root}, r.cfg.Load().Deadline)
	lookup.Call()
	a, err := r.resolve(ctx, root, q, lookup)
	lookup.End(err)
	a.LookupID = lookup.ID()
	return a, lookup.Mark(err)
}

func (r *Resolver) resolve(ctx context.Context, root b3.Root, q Query, lookup *trace.Lookup) (Answer, error) {
	l, err := r.admit()
	if err != nil {
		return Answer{}, err
	}
	defer l.work.Leave()
	a, err := r.pool.Resolve(ctx, l, root, q, lookup)
	if err != nil && l.ctx.Err() != nil {
		err = providers.ErrDraining
	}
	return a, err
}

// Traits returns what requests to a peer have shown. It does not wait.
func (r *Resolver) Traits(p peer.ID) providers.Traits { return r.pool.Traits(p) }

// Reached says that a peer is connected. Fetches that wait for the peer ask it at once. It does not wait.
func (r *Resolver) Reached(p peer.ID) {
	r.pool.Reached(p)
	r.transfers.Reached(p)
}

// Cached returns the answer to Resolve when it is remembered, or when the object is
// denied. ok is false when Resolve would have to look for it. It does not wait. parent is
// the lookup that led to the request, zero for none.
func (r *Resolver) Cached(parent status.LookupID, root b3.Root, q Query) (a Answer, ok bool, err error) {
	if err := r.filter.Object(root); err != nil {
		return a, true, r.ring.Fail(trace.Providers, trace.Key{Root: root}, time.Now(), "", err)
	}
	now := trace.Now()
	if ok, err = r.pool.Cached(&a, root, &q, now); ok {
		a.LookupID = r.ring.HitAt(parent, trace.Providers, trace.Key{Root: root}, trace.Cache, now, 0)
		if err != nil {
			err = status.WithLookup(err, a.LookupID)
		}
	}
	return a, ok, err
}
