package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Deps is what a guard needs from the node.
type Deps struct {
	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
	Limits  *limits.Registry      // nil: limits work and are listed nowhere
	Cores   int                   // of the machine; 0: GOMAXPROCS
}

// Guard admits requests. One serves the whole node; its methods may be called
// by any number of goroutines.
type Guard struct {
	m   *metrics
	log *slog.Logger

	accounts *accounts
	inflight *limits.Portions[ipgroup.Group]
	bytes    *limits.Budget
	rate     *limits.Shares[string] // by group, or by peer where it is in none
	work     *limits.Gate
	streams  *limits.Portions[ipgroup.Group]

	mu  sync.Mutex
	run *run // nil unless Run runs and its context has not ended
}

// New checks the configuration and starts nothing.
func New(cfg Config, deps Deps) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("dht: guard: metrics: %w", err)
	}
	const path = "routing streams, provider exchange → request"
	spec := func(name, policy string) limits.Spec {
		return limits.Spec{Name: name, Path: path, Policy: policy}
	}
	accounts, err := newAccounts(
		deps.Limits.NewGateFamily(spec("dht.peer_inflight", "reject quota; a routing stream is reset with a code"), int64(cfg.PeerInflight)),
		deps.Limits.NewFamily(spec("dht.peer_rate", "reject rate_limit; a routing stream is reset with a code"), float64(cfg.PeerRate), cfg.PeerRate))
	if err != nil {
		return nil, fmt.Errorf("dht: guard: %w", err)
	}
	return &Guard{
		m: m, log: deps.Log, accounts: accounts,
		inflight: limits.NewPortions[ipgroup.Group](deps.Limits, spec("dht.inflight", "reject busy, and quota to an IP group that has a quarter of the free places; a routing stream is reset with a code"), int64(cfg.Inflight), groupPart),
		bytes:    deps.Limits.NewBudget(spec("dht.bytes", "reject busy; a routing stream is reset with a code"), int64(cfg.Bytes)),
		rate: limits.NewShares[string](deps.Limits, spec("dht.rate", "reject rate_limit, first to IP groups that ask more than others; a routing stream is reset with a code"), limits.Spec{},
			limits.SharesConfig{PerSecond: float64(cfg.Rate), Burst: cfg.Rate}),
		work: deps.Limits.NewGate(limits.Spec{
			Name: "dht.work", Path: "routing streams, provider exchange → lookup workers",
			Policy: fmt.Sprintf("%d wait within their deadline, the rest get busy", cfg.Queue),
		}, cfg.workers(cmp.Or(deps.Cores, runtime.GOMAXPROCS(0))), int64(cfg.Queue)),
		streams: limits.NewPortions[ipgroup.Group](deps.Limits, limits.Spec{
			Name: "dht.streams", Path: "routing streams, provider exchange → their handlers", Policy: "the stream is reset with a code; one IP group has a quarter of the free places at most",
		}, maxStreams, groupPart),
	}, nil
}

// Stream takes a place for a stream of a peer in that IP group (empty: it is in
// none), from its beginning, and never waits. It refuses with status.Quota or
// Busy; the caller then resets the stream. The caller calls release when the
// stream is over.
func (g *Guard) Stream(group ipgroup.Group) (release func(), err error) {
	if err := g.streams.Enter(group); err != nil {
		return nil, g.m.refuseIn(kindStreams, kindGroupStreams, err)
	}
	return sync.OnceFunc(func() { g.streams.Leave(group) }), nil
}

// Admit lets a request of p in that occupies so many bytes (≥ 0) while it is in
// flight, and never waits. group is the IP group of p's connection, empty when it
// is in none. Admit refuses with status.Quota (p has too many in flight, or its
// group), RateLimit (of p, of its group, or of all) or Busy (in flight or bytes,
// of all), and with ctx's outcome when ctx has ended. A refused request costs p a
// token at most, and the others nothing. The caller calls release when the
// request is over; a second call changes nothing.
func (g *Guard) Admit(ctx context.Context, p peer.ID, group ipgroup.Group, bytes int) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, status.Errorf(status.Of(err), "dht: admit a request: %w", err)
	}
	a := g.accounts.use(p)
	leave, err := g.enter(a, p, group, int64(bytes))
	if err != nil {
		g.accounts.done(p, a)
		return nil, err
	}
	return sync.OnceFunc(func() {
		leave()
		g.accounts.done(p, a)
	}), nil
}

// enter takes what a request takes, the tokens of all peers last.
func (g *Guard) enter(a *account, p peer.ID, group ipgroup.Group, bytes int64) (leave func(), err error) {
	if err := a.inflight.TryAcquire(); err != nil {
		return nil, g.m.refuse(kindPeerInflight, err)
	}
	if err := a.rate.Allow(); err != nil {
		a.inflight.Release()
		return nil, g.m.refuse(kindPeerRate, err)
	}
	if err := g.inflight.Enter(group); err != nil {
		a.inflight.Release()
		return nil, g.m.refuseIn(kindInflight, kindGroupInflight, err)
	}
	if err := g.bytes.TryAcquire(bytes); err != nil {
		g.inflight.Leave(group)
		a.inflight.Release()
		return nil, g.m.refuse(kindBytes, err)
	}
	leave = func() {
		g.bytes.Release(bytes)
		g.inflight.Leave(group)
		a.inflight.Release()
	}
	share, err := g.rate.Enter(rateKey(p, group))
	if err != nil {
		leave()
		return nil, g.m.refuse(kindRate, err)
	}
	share.Leave() // the token is used up; places are counted by inflight
	return leave, nil
}

// rateKey is what a share of the rate is for: a new identity has none of its own.
func rateKey(p peer.ID, group ipgroup.Group) string {
	if group == "" {
		return "peer " + string(p)
	}
	return string(group)
}

// Work waits for a worker's place, at most 100 ms: who asks is better served by
// busy now than by an answer later. It returns status.Busy then, and at once when
// the queue is full or the estimated wait exceeds that, and ctx's outcome when ctx
// ends first. The caller calls release when the work is done; a second call
// changes nothing.
func (g *Guard) Work(ctx context.Context) (release func(), err error) {
	wait, cancel := context.WithTimeout(ctx, workWait)
	defer cancel()
	release, err = g.work.Acquire(wait)
	switch {
	case err == nil:
		return release, nil
	case wait.Err() != nil && ctx.Err() == nil:
		err = status.Errorf(status.Busy, "dht: no worker within %s", workWait)
	case errors.Is(err, context.Canceled):
		return nil, status.Errorf(status.Canceled, "dht: wait for a worker: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		err = status.Errorf(status.Timeout, "dht: wait for a worker: %w", err)
	}
	return nil, g.m.refuse(kindWork, err)
}
