package content

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/exchange"
	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fetchGate limits the requests that ask the network for an object. They wait apart from all
// others, so that requests for local objects and uploads never wait behind them (SPEC §2).
type fetchGate struct {
	gate    *limits.Gate
	perIP   *limits.KeyedGate[netip.Prefix]
	waiting *limits.Gate // requests that wait for a permit of perIP
	expired prometheus.Counter
}

// fetchPolicy says in the table of limits what happens to a request without a permit.
const fetchPolicy = "waits in line within its deadline, then reject: 429 busy"

func newFetchGate(cfg Config, r *limits.Registry) fetchGate {
	return fetchGate{
		gate: r.NewGate(limits.Spec{
			Name: "gateway.misses", Path: "handlers → network", Policy: fetchPolicy,
		}, cfg.Fetches, cfg.FetchesWaiting),
		perIP: limits.NewKeyedGate[netip.Prefix](r, limits.Spec{
			Name: "gateway.misses_per_ip", Path: "handlers → network", Policy: fetchPolicy, Each: "client",
		}, cfg.FetchesPerIP),
		waiting: r.NewGate(limits.Spec{
			Name: "gateway.misses_per_ip_waiting", Path: "handlers → gateway.misses_per_ip", Policy: "reject: 429 busy",
		}, max(1, cfg.FetchesWaiting), 0),
		expired: env.Counter("gateway_expired_total",
			"Requests whose deadline passed while they waited for a permit to ask the network."),
	}
}

// try takes a permit if one is free. A context that bounds the wait would cost more than the rest.
func (f *fetchGate) try(client netip.Prefix) (leave func(), ok bool) {
	if !f.gate.Try() {
		return nil, false
	}
	done, ok := f.perIP.Try(client)
	if !ok {
		f.gate.Leave()
		return nil, false
	}
	return sync.OnceFunc(func() { f.gate.Leave(); done() }), true
}

// source opens objects, of this node and of the network. Its methods may be called from any goroutine.
type source struct {
	objects  Objects
	denylist policy.Filter
	fetches  fetchGate
	live     *atomic.Pointer[Config]
}

// AcquireFetch waits for a permit to ask the network, for at most FirstByteTimeout. It
// returns busy at once if the queue is full. The caller calls leave when the Content is closed.
func (s *source) AcquireFetch(ctx context.Context, w *exchange.Response) (leave func(), err error) {
	if leave, ok := s.fetches.try(w.From.Group); ok {
		return leave, nil
	}
	longest := s.live.Load().FirstByteTimeout
	wait, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	done, err := s.fetches.perIP.Await(wait, w.From.Group, s.fetches.waiting)
	if err != nil {
		return nil, s.fetchRefused(ctx, longest, err)
	}
	release := sync.OnceFunc(s.fetches.gate.Leave)
	if !s.fetches.gate.Try() {
		w.EvictFetched() // slow clients must not keep others from the network
		release, err = s.fetches.gate.Acquire(wait)
	}
	if err == nil && ctx.Err() != nil {
		release()
		err = ctx.Err()
	}
	if err == nil {
		return sync.OnceFunc(func() { release(); done() }), nil
	}
	done()
	return nil, s.fetchRefused(ctx, longest, err)
}

// fetchRefused returns the error of a request that got no permit within longest, and counts it if its
// deadline passed.
func (s *source) fetchRefused(ctx context.Context, longest time.Duration, err error) error {
	if status.Of(err) == status.Busy {
		return err
	}
	s.fetches.expired.Inc()
	if ctx.Err() != nil {
		return exchange.CauseOf(ctx, err)
	}
	return status.Errorf(status.Timeout,
		"cannot ask the network: other requests held all places of gateway.misses for %s. Try again",
		longest)
}

// fetchedContent is a Content that holds a permit of the fetch gate until it is closed.
type fetchedContent struct {
	Content
	release func()
}

// Close closes the Content and releases the permit.
func (c fetchedContent) Close() error {
	defer c.release()
	return c.Content.Close()
}

// open opens root. It opens a local object at once. For any other object it first gives up
// the request's place among the admitted requests and waits for a permit of the fetch gate.
// It returns precondition if the request has only-if-cached and the object is not local.
func (s *source) open(b *body, r *http.Request, root b3.Root, o OpenOptions) (Content, error) {
	if err := s.denylist.Object(root); err != nil {
		return nil, err
	}
	w, ctx := b.w, b.mayStall()
	o.LocalOnly = true
	if !exchange.OnlyIfCached(r) {
		o.Admit = func(ctx context.Context) (leave func(), err error) { return s.fetching(ctx, w) }
	}
	c, err := s.objects.Open(ctx, root, o)
	out := status.Of(err)
	switch {
	case err == nil:
		w.LookupID = lookupOf(c)
		return c, nil
	case out != status.NotFound && out != status.Corrupt, b.item.storedOnly:
		return c, err
	case !exchange.OnlyIfCached(r):
	case out == status.NotFound:
		return nil, status.Errorf(status.Precondition,
			"cannot serve %s: the object is not on this node, and the request "+
				"has only-if-cached. Leave out only-if-cached to fetch it from peers", shorten(root))
	default:
		return nil, err
	}
	leave, err := s.fetching(ctx, w)
	if err != nil {
		return nil, err
	}
	opened := false
	defer func() { // runs after a panic too
		if !opened {
			leave()
		}
	}()
	o.LocalOnly, o.Admit = false, nil
	if c, err = s.objects.Open(ctx, root, o); err != nil {
		return nil, err
	}
	opened = true
	w.LookupID = lookupOf(c)
	return fetchedContent{c, leave}, nil
}

// fetching gives up the request's place among the admitted requests and waits for a permit of the
// fetch gate, which leave returns.
func (s *source) fetching(ctx context.Context, w *exchange.Response) (leave func(), err error) {
	w.ReleaseAdmission()
	release, err := s.AcquireFetch(ctx, w)
	if err != nil {
		return nil, err
	}
	w.Fetching++
	return func() {
		w.Fetching--
		release()
	}, nil
}
