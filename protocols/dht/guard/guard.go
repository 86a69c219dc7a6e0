package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/admission"
	"allium/protocols/status"
)

// Deps is what a guard needs from the node.
type Deps struct {
	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
	Limits  *admission.Registry   // nil: limits work and are listed nowhere
}

// Guard admits requests. One serves the whole node; its methods may be called
// by any number of goroutines.
type Guard struct {
	m   *metrics
	log *slog.Logger

	accounts *accounts
	inflight *admission.Gate
	bytes    *admission.Budget
	rate     *admission.Rate
	work     *admission.Gate
	streams  *admission.Gate

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
	spec := func(name, policy string) admission.Spec {
		return admission.Spec{Name: name, Path: path, Policy: policy}
	}
	accounts, err := newAccounts(
		deps.Limits.NewGateFamily(spec("dht.peer_inflight", "reject quota; a routing stream is reset with a code"), int64(cfg.PeerInflight)),
		deps.Limits.NewFamily(spec("dht.peer_rate", "reject rate_limit; a routing stream is reset with a code"), float64(cfg.PeerRate), cfg.PeerRate))
	if err != nil {
		return nil, fmt.Errorf("dht: guard: %w", err)
	}
	return &Guard{
		m: m, log: deps.Log, accounts: accounts,
		inflight: deps.Limits.NewGate(spec("dht.inflight", "reject busy; a routing stream is reset with a code"), int64(cfg.Inflight), 0),
		bytes:    deps.Limits.NewBudget(spec("dht.bytes", "reject busy; a routing stream is reset with a code"), int64(cfg.Bytes)),
		rate:     deps.Limits.NewRate(spec("dht.rate", "reject rate_limit; a routing stream is reset with a code"), float64(cfg.Rate), cfg.Rate),
		work: deps.Limits.NewGate(admission.Spec{
			Name: "dht.work", Path: "routing streams, provider exchange → lookup workers",
			Policy: fmt.Sprintf("%d wait within their deadline, the rest get busy", cfg.Queue),
		}, cfg.workers(), int64(cfg.Queue)),
		streams: deps.Limits.NewGate(admission.Spec{
			Name: "dht.streams", Path: "routing streams → their handlers", Policy: "the stream is reset with a code",
		}, maxStreams, 0),
	}, nil
}

// Admit lets a request of p in that occupies so many bytes (≥ 0) while it is in
// flight, and never waits. It refuses with status.Quota (p has too many in
// flight), RateLimit (of p, or of all) or Busy (in flight or bytes, of all), and
// with ctx's outcome when ctx has ended. A refused request costs p a token at
// most, and the others nothing. The caller calls release when the request is
// over; a second call changes nothing.
func (g *Guard) Admit(ctx context.Context, p peer.ID, bytes int) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, status.Errorf(status.Of(err), "dht: admit a request: %w", err)
	}
	a := g.accounts.use(p)
	leave, err := g.enter(a, int64(bytes))
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
func (g *Guard) enter(a *account, bytes int64) (leave func(), err error) {
	if err := a.inflight.TryAcquire(); err != nil {
		return nil, g.m.refuse(kindPeerInflight, err)
	}
	if err := a.rate.Allow(); err != nil {
		a.inflight.Release()
		return nil, g.m.refuse(kindPeerRate, err)
	}
	place, err := g.inflight.TryAcquire()
	if err != nil {
		a.inflight.Release()
		return nil, g.m.refuse(kindInflight, err)
	}
	if err := g.bytes.TryAcquire(bytes); err != nil {
		place()
		a.inflight.Release()
		return nil, g.m.refuse(kindBytes, err)
	}
	leave = func() {
		g.bytes.Release(bytes)
		place()
		a.inflight.Release()
	}
	if err := g.rate.Allow(); err != nil {
		leave()
		return nil, g.m.refuse(kindRate, err)
	}
	return leave, nil
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
