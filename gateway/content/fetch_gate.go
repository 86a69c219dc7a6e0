package content

import (
	"context"
	"net/http"
	"net/netip"
	"sync"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fetchGate counts the requests whose object is not here, so that the network is
// asked: they run and wait apart from all others, so that hits, which are
// served at once, and uploads are never behind them (SPEC §2).
type fetchGate struct {
	gate  *limits.Gate
	perIP *limits.KeyedGate[netip.Prefix] // nil: no bound
	line  *limits.Gate                    // who waits for one of their client's places
}

func newFetchGate(cfg Config, r *limits.Registry) fetchGate {
	return fetchGate{
		gate: r.NewGate(limits.Spec{
			Name: "gateway.misses", Path: "handlers → network", Policy: "waits in line within its deadline, then reject: 429 busy",
		}, cfg.Misses, cfg.MissesWaiting),
		perIP: limits.NewKeyedGate[netip.Prefix](r, limits.Spec{
			Name: "gateway.misses_per_ip", Path: "handlers → network", Policy: "waits in line within its deadline, then reject: 429 busy",
		}, cfg.MissesPerIP),
		line: r.NewGate(limits.Spec{
			Name: "gateway.misses_per_ip_waiting", Path: "handlers → gateway.misses_per_ip", Policy: "reject: 429 busy",
		}, max(1, cfg.MissesWaiting), 0),
	}
}

// miss waits for a permit to ask the network, at most as long as content may
// take to be found. What cannot make that is refused at once with busy.
func (g *Handlers) miss(ctx context.Context, w *exchange.Response) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, g.cfg.FirstByteTimeout)
	defer cancel()
	done, err := g.fetches.perIP.Await(wait, w.From.Group, g.fetches.line)
	if err != nil {
		return nil, g.missedTurn(ctx, err)
	}
	release, err := g.fetches.gate.Acquire(wait)
	if err == nil && ctx.Err() != nil {
		release()
		err = ctx.Err()
	}
	if err == nil {
		return sync.OnceFunc(func() { release(); done() }), nil
	}
	done()
	return nil, g.missedTurn(ctx, err)
}

// missedTurn is what is said of a request that did not come to ask the network.
func (g *Handlers) missedTurn(ctx context.Context, err error) error {
	if status.Of(err) == status.Busy {
		return err
	}
	g.expired.Inc()
	if ctx.Err() != nil {
		return exchange.CauseOf(ctx, err)
	}
	return status.Errorf(status.Timeout, "gateway.misses: its turn to ask the network did not come within %s; try again", g.cfg.FirstByteTimeout)
}

// missed is content that the network is asked for until it is closed.
type missed struct {
	Content
	leave func()
}

// Close ends the reading and gives the permit back.
func (c missed) Close() error {
	defer c.leave()
	return c.Content.Close()
}

// open opens an object that is here at once, and any other when the network may
// be asked for it: then w's request is counted by the misses from there on.
func (g *Handlers) open(ctx context.Context, w *exchange.Response, r *http.Request, root b3.Root, o OpenOptions) (Content, error) {
	if err := g.denylist.Object(root); err != nil {
		return nil, err
	}
	o.LocalOnly = true
	c, err := g.objects.Open(ctx, root, o)
	out := status.Of(err)
	switch {
	case out != status.NotFound && out != status.Corrupt:
		return c, err
	case !onlyIfCached(r):
	case out == status.NotFound:
		return nil, status.Errorf(status.Precondition, "%s is not on this node, and only-if-cached keeps it from asking others", root)
	default:
		return nil, err
	}
	w.Undecided()
	leave, err := g.miss(ctx, w)
	if err != nil {
		return nil, err
	}
	opened := false
	defer func() { // after a panic too
		if !opened {
			leave()
		}
	}()
	o.LocalOnly = false
	if c, err = g.objects.Open(ctx, root, o); err != nil {
		return nil, err
	}
	opened = true
	return missed{c, leave}, nil
}
