package resolver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Resolver fetches objects. Its methods may be called from any goroutine while
// Run runs; before they return status.NotReady, and status.Draining after it.
type Resolver struct {
	cfg     Config
	local   Local
	objects ObjectClient
	dialer  Dialer
	self    peer.ID
	log     *slog.Logger
	m       *metrics
	targets *targets
	lookups *lookups
	hints   func(b3.Root) []Provider
	denied  func(b3.Root) error

	fetchGate, treeGate *admission.Gate

	served *lru.Cache[b3.Root, peer.ID] // who served a root last: first choice for what lies below it

	run atomic.Pointer[life]

	lingering atomic.Int64 // transfers that nobody waits for

	mu        sync.Mutex
	transfers map[b3.Root]*transfer
	trees     map[b3.Root]chan struct{} // closed when the tree fetch that put it there ends
}

// servedRemembered is how many roots it is remembered of who served them, at
// under 100 bytes each.
const servedRemembered = 4096

// life is one Run: work starts under its context and is counted by its group.
type life struct {
	ctx context.Context
	wg  sync.WaitGroup

	mu    sync.Mutex
	ended bool // no more work starts; guards wg against an Add beside Wait
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
		{"Local", d.Local == nil}, {"Providers", d.Providers == nil}, {"Objects", d.Objects == nil}, {"Dialer", d.Dialer == nil},
	} {
		if dep.missing {
			return nil, fmt.Errorf("resolver: Deps.%s is missing", dep.name)
		}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	served, err := lru.New[b3.Root, peer.ID](servedRemembered)
	if err != nil {
		return nil, err
	}
	m := newMetrics(d.Metrics)
	r := &Resolver{
		cfg: cfg, local: d.Local, objects: d.Objects, dialer: d.Dialer, self: d.Self, log: d.Log, m: m,
		targets: newTargets(cfg, m.breakerOpened.Inc),
		fetchGate: d.Limits.NewGate(admission.Spec{
			Name: "resolver.fetches", Path: "gateway, sessions → fetches", Policy: "resolver.fetches_waiting wait, the rest are refused with busy",
		}, cfg.Fetches, cfg.FetchesWaiting),
		treeGate: d.Limits.NewGate(admission.Spec{
			Name: "resolver.trees", Path: "gateway, commands → directory fetches", Policy: "as many wait, the rest are refused with busy",
		}, cfg.Trees, cfg.Trees),
		served:    served,
		transfers: map[b3.Root]*transfer{},
		trees:     map[b3.Root]chan struct{}{},
	}
	if r.denied = d.Denied; r.denied == nil {
		r.denied = func(b3.Root) error { return nil }
	}
	r.lookups = newLookups(cfg, d, m, r.guard)
	if r.hints = d.Hints; r.hints == nil {
		r.hints = func(b3.Root) []Provider { return nil }
	}
	if d.Metrics != nil {
		d.Metrics.MustRegister(newBreakerStates(r.targets))
		r.registerTransfers(d.Metrics)
	}
	return r, nil
}

// Run lets fetches start and forgets expired lookups. When ctx ends it cancels
// what is in flight and returns nil after the last goroutine. It can run again.
func (r *Resolver) Run(ctx context.Context, ready func()) error {
	l := &life{ctx: ctx}
	if old := r.run.Load(); old != nil && !old.over() || !r.run.CompareAndSwap(old, l) {
		return errors.New("resolver: it runs already")
	}
	ready()
	tick := time.NewTicker(r.cfg.PositiveTTL)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			r.lookups.sweep(now)
		case <-ctx.Done():
			l.end()
			return nil
		}
	}
}

// admit lets a call in. Run waits until l.wg.Done counts it out.
func (r *Resolver) admit() (l *life, err error) {
	l = r.run.Load()
	switch {
	case l == nil:
		return nil, status.Errorf(status.NotReady, "resolver: it has not started; try again in a moment")
	case !l.enter():
		return nil, errDraining
	}
	return l, nil
}

// begin admits a call whose context ends with ctx or with Run, and which lasts
// until done is called.
func (r *Resolver) begin(ctx context.Context) (work context.Context, l *life, done func(), err error) {
	if l, err = r.admit(); err != nil {
		return nil, nil, nil, err
	}
	work, end := l.bind(ctx)
	return work, l, func() { end(); l.wg.Done() }, nil
}

// bind returns ctx, to end also with the life.
func (l *life) bind(ctx context.Context) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(errDraining) })
	return work, func() { stop(); cancel(nil) }
}

// enter counts one more piece of work in, unless the life is over. l.wg.Done
// counts it out.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.ctx.Err() != nil {
		return false
	}
	l.wg.Add(1)
	return true
}

// end refuses new work and waits for what there is.
func (l *life) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// guard turns a panic of f into an error: a bug in one fetch does not take the
// node down.
func (r *Resolver) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("a fetch panicked", "panic", p, "stack", string(debug.Stack()))
			err = final(status.Errorf(status.Internal, "resolver: a bug ended the fetch; please report it with the log of this node: %v", p))
		}
	}()
	return f()
}

// newLookupID returns 16 random hex digits to find a request by in the log.
func newLookupID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
