package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Deps holds the dependencies of a guard on the node.
type Deps struct {
	env.Env

	Cores int // processors of the machine, 1 or more
}

// Guard admits requests. One Guard serves the whole node. Its methods are safe for
// concurrent use.
type Guard struct {
	m   *metrics
	log *slog.Logger

	accounts *accounts
	inflight *limits.FairGate[ipgroup.Group]
	bytes    *limits.Budget
	rate     *limits.FairRate[string] // by IP group, or by peer if it is in none
	work     *limits.Gate
	streams  *limits.FairGate[ipgroup.Group]

	mu  sync.Mutex // lock: leaf
	run *guardRun  // nil unless Run runs and its context has not ended
}

// New returns a Guard that is not running. It starts nothing.
func New(cfg Config, deps Deps) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Cores < 1 {
		return nil, status.Errorf(status.BadRequest, "the guard needs the number of processors")
	}
	deps.Env.SetDefaults()
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register guard metrics: %w", err)
	}
	const (
		path  = "routing streams, provider exchange → request"
		reset = "; a routing stream is reset with a code"
	)
	spec := func(name, policy string) limits.Spec {
		return limits.Spec{Name: name, Path: path, Policy: policy + reset}
	}
	perPeer := func(name, policy string) limits.Spec {
		s := spec(name, policy)
		s.Each = "peer"
		return s
	}
	accounts, err := newAccounts(deps.Limits,
		perPeer("dht.peer_inflight", "reject quota"), perPeer("dht.peer_rate", "reject rate_limit"), cfg)
	if err != nil {
		return nil, err
	}
	inflight := spec("dht.inflight", "reject busy, and quota to an IP group that has a quarter of the free places")
	rate := spec("dht.rate", "reject rate_limit, first to IP groups that ask more than others")
	return &Guard{
		m: m, log: deps.Log, accounts: accounts,
		inflight: limits.NewFairGate[ipgroup.Group](deps.Limits, inflight, int64(cfg.Inflight), groupFraction),
		bytes:    deps.Limits.NewBudget(spec("dht.bytes", "reject busy"), int64(cfg.Bytes)),
		rate: limits.NewFairRate[string](deps.Limits, rate, limits.Spec{},
			cfg.perSecond()),
		work: deps.Limits.NewGate(limits.Spec{
			Name: "dht.work", Path: "routing streams, provider exchange → lookup workers",
			Policy: fmt.Sprintf("%d wait within their deadline, the rest get busy", cfg.Queue),
		}, cfg.workers(deps.Cores), int64(cfg.Queue)),
		streams: limits.NewFairGate[ipgroup.Group](deps.Limits, limits.Spec{
			Name: "dht.streams", Path: "routing streams, provider exchange → their handlers",
			Policy: "the stream is reset with a code; one IP group has at most a quarter of the free places",
		}, maxStreams, groupFraction),
	}, nil
}

// Reconfigure applies the hot fields of a valid configuration at once. Requests beyond a bound that shrank go on.
func (g *Guard) Reconfigure(cfg Config) {
	g.inflight.Resize(int64(cfg.Inflight))
	g.rate.Set(cfg.perSecond())
}

// Stream takes a place for a stream of a peer in group (empty: in none) and never waits. It
// refuses with status.Quota or Busy; the caller then resets the stream. The caller calls
// release when the stream has ended.
func (g *Guard) Stream(group ipgroup.Group) (release func(), err error) {
	if err := g.streams.Enter(group); err != nil {
		return nil, g.m.refuseGroup(kindStreams, kindGroupStreams, err)
	}
	return sync.OnceFunc(func() { g.streams.Leave(group) }), nil
}

// Admit admits a request of p that takes bytes bytes (0 or more) while it is in flight. It
// never waits. group is the IP group of p's connection, empty if it is in none.
//
// Admit refuses with status.Quota (p or its group has too many in flight), RateLimit (of p,
// of its group, or of all) or Busy (requests in flight or bytes of all). It returns ctx's
// outcome if ctx has ended. A refused request costs p at most one token and the others
// nothing. The caller calls release when the request has ended; a second call does nothing.
func (g *Guard) Admit(ctx context.Context, p peer.ID, group ipgroup.Group, bytes int) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, status.Errorf(status.Of(err), "admit a request: %w", err)
	}
	a := g.accounts.acquire(p)
	leave, err := g.take(a, p, group, int64(bytes))
	if err != nil {
		g.accounts.release(p, a)
		return nil, err
	}
	return sync.OnceFunc(func() {
		leave()
		g.accounts.release(p, a)
	}), nil
}

// take takes what a request needs. It takes the rate token shared by all peers last.
func (g *Guard) take(a *account, p peer.ID, group ipgroup.Group, bytes int64) (leave func(), err error) {
	if err := a.inflight.Enter(); err != nil {
		return nil, g.m.refuse(kindPeerInflight, err)
	}
	if err := a.rate.Allow(); err != nil {
		a.inflight.Leave()
		return nil, g.m.refuse(kindPeerRate, err)
	}
	if err := g.inflight.Enter(group); err != nil {
		a.inflight.Leave()
		return nil, g.m.refuseGroup(kindInflight, kindGroupInflight, err)
	}
	if err := g.bytes.TryAcquire(bytes); err != nil {
		g.inflight.Leave(group)
		a.inflight.Leave()
		return nil, g.m.refuse(kindBytes, err)
	}
	leave = func() {
		g.bytes.Release(bytes)
		g.inflight.Leave(group)
		a.inflight.Leave()
	}
	share, err := g.rate.Enter(rateKey(p, group))
	if err != nil {
		leave()
		return nil, g.m.refuse(kindRate, err)
	}
	share.Leave() // the token is used; inflight counts the places
	return leave, nil
}

// rateKey returns the key of a share of the rate: the IP group, because a new identity must not get a new share.
func rateKey(p peer.ID, group ipgroup.Group) string {
	if group == "" {
		return "peer " + string(p)
	}
	return string(group)
}

// Work waits at most 100 ms for a worker. It returns status.Busy after that, and at once if
// the queue is full or the estimated wait is longer: the peer can then ask another node. It
// returns ctx's outcome if ctx ends first. The caller calls release when the work is done; a
// second call does nothing.
func (g *Guard) Work(ctx context.Context) (release func(), err error) {
	wait, cancel := context.WithTimeout(ctx, workerTimeout)
	defer cancel()
	release, err = g.work.Acquire(wait)
	switch {
	case err == nil:
		return release, nil
	case wait.Err() != nil && ctx.Err() == nil:
		err = status.Errorf(status.Busy, "no worker within %s", workerTimeout)
	case errors.Is(err, context.Canceled):
		return nil, status.Errorf(status.Canceled, "wait for a worker: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		err = status.Errorf(status.Timeout, "wait for a worker: %w", err)
	}
	return nil, g.m.refuse(kindWork, err)
}
