package transfer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// Config bounds transfers. The resolver's configuration documents the fields.
type Config struct {
	Tries              int   // a provider is lost after so many requests in a row that delivered nothing
	ProvidersPerObject int   // most providers asked at the same time
	Fetches            int64 // most transfers with requests in flight
	FetchesWaiting     int64 // most transfers that wait for them; more are refused with busy

	HedgeAfter time.Duration // a silent provider of unknown rate is late after it
}

// Deps holds the dependencies of a [Set]. Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Local Local
	Pool  *providers.Pool

	Trace *trace.Ring // records the transfers; may be nil
	// Received counts the verified bytes of peers, by the kind of request: fetch
	// (whole objects), range, extra (bytes that were stored already).
	Received *prometheus.CounterVec
	// Observe gets the begin and the end of every transfer that asks peers. It must not
	// block; nil: nobody observes.
	Observe func(Event)
}

// Event is the begin or the end of a transfer.
type Event struct {
	Root     b3.Root
	Tree     bool // a fetch of a directory, whose large files are transfers too
	LookupID status.LookupID

	Ended   bool
	Outcome status.Outcome // at the end; canceled if the callers left before all of it was here
	Bytes   int64          // at the end: verified bytes received from peers
	Took    time.Duration  // at the end
}

// Set is the running transfers, at most one for each object. Its methods are safe
// for concurrent use.
type Set struct {
	cfg   atomic.Pointer[Config]
	local Local
	pool  *providers.Pool
	ring  *trace.Ring
	m     *metrics
	gate  *limits.Gate
	tasks *tasks.Registry

	streams *limits.Gate // readers through RAM

	observe func(Event)

	lingering atomic.Int64 // transfers that stay open without a waiter

	mu        sync.Mutex // lock: leaf
	transfers map[b3.Root]*transfer
}

// New returns an empty set. It starts nothing.
func New(cfg Config, d Deps) *Set {
	s := &Set{
		local: d.Local, pool: d.Pool, ring: d.Trace, m: newMetrics(d.Metrics, d.Received), tasks: d.Tasks,
		gate: d.Limits.NewGate(limits.Spec{
			Name:   "resolver.fetches",
			Path:   "gateway, sessions → fetches",
			Policy: "resolver.fetches_waiting wait, the rest are refused with busy",
		}, cfg.Fetches, cfg.FetchesWaiting),
		streams: d.Limits.NewGate(limits.Spec{
			Name: "resolver.streams", Path: "readers → objects for which the store has no space",
			Policy: "reject: busy",
		}, maxStreams, 0),
		observe: d.Observe, transfers: map[b3.Root]*transfer{},
	}
	s.cfg.Store(&cfg)
	if s.observe == nil {
		s.observe = func(Event) {}
	}
	if d.Metrics != nil {
		s.register(d.Metrics)
	}
	return s
}

// Reconfigure changes Fetches, ProvidersPerObject and HedgeAfter. Transfers that run keep theirs.
func (s *Set) Reconfigure(cfg Config) {
	s.cfg.Store(&cfg)
	s.gate.Resize(cfg.Fetches)
}

// Join joins the transfer of root for the bytes that opt names. It starts the
// transfer as one of tasks when none runs. The caller calls [Waiter.Leave] once. An
// error names a lookup that records it.
func (s *Set) Join(ctx context.Context, tasks providers.Tasks, root b3.Root, opt Options) (*Waiter, error) {
	return s.join(ctx, tasks, root, opt, false, nil)
}

// JoinWhole is Join for the whole object as fast as it arrives, without a reader. of is
// the lookup of the directory to which the object belongs, or nil.
func (s *Set) JoinWhole(
	ctx context.Context, tasks providers.Tasks, root b3.Root, from providers.Sources, of *trace.Lookup,
) (*Waiter, error) {
	return s.join(ctx, tasks, root, Whole(from), true, of)
}

func (s *Set) join(
	ctx context.Context, tasks providers.Tasks, root b3.Root, opt Options, whole bool, of *trace.Lookup,
) (*Waiter, error) {
	parent := trace.ParentOf(ctx)
	parent.ID = cmp.Or(of.ID(), parent.ID)
	for {
		t, fresh := s.transferOf(tasks, root, opt.Sources, whole, parent)
		if w := t.join(ctx, opt, whole); w != nil {
			if fresh {
				if !tasks.Go(func() { t.run(tasks.Context()) }) {
					t.run(tasks.Context()) // which has ended
				}
			} else {
				t.src.Add(opt.Peers...)
			}
			return w, nil
		}
		// The transfer is ending. The next one continues from there.
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, status.WithLookup(ctx.Err(), t.trace.ID())
		}
	}
}

// transferOf returns the transfer of root. fresh says that the caller must run it.
func (s *Set) transferOf(
	tasks providers.Tasks, root b3.Root, from providers.Sources, whole bool, parent trace.Parent,
) (t *transfer, fresh bool) {
	if t := s.running(root); t != nil {
		return t, false
	}
	kind := trace.Open
	if whole {
		kind = trace.Fetch
	}
	t = s.newTransfer(tasks, root, from, kind, parent)
	s.mu.Lock()
	other := s.transfers[root]
	if other == nil {
		s.transfers[root] = t
	}
	s.mu.Unlock()
	if other != nil { // another caller was faster
		t.trace.Discard()
		return other, false
	}
	return t, true
}

func (s *Set) newTransfer(
	tasks providers.Tasks, root b3.Root, from providers.Sources, kind trace.Kind, parent trace.Parent,
) *transfer {
	record := s.ring.BeginUnder(parent, kind, trace.Key{Root: root}, 0)
	return &transfer{
		s: s, root: root, trace: record, src: s.pool.Candidates(tasks, root, from).Record(record),
		content: content{known: make(chan struct{})}, peers: peers{by: map[peer.ID]struct{}{}},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Stream is Join for a reader that gets the object through RAM. full is the error of the store, which
// has no space for it. The transfer has no other waiter and stores nothing.
func (s *Set) Stream(
	ctx context.Context, tasks providers.Tasks, root b3.Root, opt Options, full error,
) (*Waiter, error) {
	leave, err := s.streams.TryAcquire()
	if err != nil {
		return nil, err
	}
	opt.Ahead = streamAhead * b3.GroupSize
	t := s.newTransfer(tasks, root, opt.Sources, trace.Open, trace.ParentOf(ctx))
	t.trace.Failed(trace.Store, 0, full)
	t.stream = &opt
	w := t.join(ctx, opt, false)
	if !tasks.Go(func() { defer leave(); t.run(tasks.Context()) }) {
		defer leave()
		t.run(tasks.Context()) // which has ended
	}
	return w, nil
}

// Settle waits until the transfer of root that runs, if one does, has ended.
func (s *Set) Settle(ctx context.Context, root b3.Root) error {
	t := s.running(root)
	if t == nil {
		return nil
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reached says that a peer is connected: transfers that wait for it to return ask it at once.
func (s *Set) Reached(p peer.ID) {
	s.mu.Lock()
	running := slices.Collect(maps.Values(s.transfers))
	s.mu.Unlock()
	for _, t := range running {
		t.back(p)
	}
}

// running returns the running transfer of root, or nil.
func (s *Set) running(root b3.Root) *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transfers[root]
}
