package gateway

import (
	"context"
	"net/http"
	"sync"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// misses are the requests whose object is not here, so that the network is
// asked: they run and wait apart from all others, so that hits, which are
// served at once, and uploads are never behind them (SPEC §2).
type misses struct {
	gate  *admission.Gate
	perIP *ipCounts // nil: no bound
}

func newMisses(cfg Config, r *admission.Registry) misses {
	return misses{
		gate: r.NewGate(admission.Spec{
			Name: "gateway.misses", Path: "handlers → network", Policy: "waits in line within its deadline, then reject: 429 busy",
		}, cfg.Misses, cfg.MissesWaiting),
		perIP: newIPCounts(r, admission.Spec{
			Name: "gateway.misses_per_ip", Path: "handlers → network", Policy: "reject: 429 busy",
		}, cfg.MissesPerIP),
	}
}

// miss waits for a permit to ask the network, at most as long as content may
// take to be found. What cannot make that is refused at once with busy.
func (g *Gateway) miss(ctx context.Context, r *http.Request) (leave func(), err error) {
	done, err := g.misses.perIP.enter(g.proxies.originOf(r).group)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, g.cfg.FirstByteTimeout)
	defer cancel()
	release, err := g.misses.gate.Acquire(wait)
	if err == nil && ctx.Err() != nil {
		release()
		err = ctx.Err()
	}
	if err == nil {
		return sync.OnceFunc(func() { release(); done() }), nil
	}
	done()
	if status.Of(err) == status.Busy {
		return nil, err
	}
	g.m.expired.Inc()
	if ctx.Err() != nil {
		return nil, causeOf(ctx, err)
	}
	return nil, status.Errorf(status.Timeout, "gateway.misses: its turn to ask the network did not come within %s; try again", g.cfg.FirstByteTimeout)
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
// be asked for it.
func (g *Gateway) open(ctx context.Context, r *http.Request, root b3.Root, o OpenOptions) (Content, error) {
	if err := g.denied(root); err != nil {
		return nil, err
	}
	o.LocalOnly = true
	c, err := g.deps.Objects.Open(ctx, root, o)
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
	leave, err := g.miss(ctx, r)
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
	if c, err = g.deps.Objects.Open(ctx, root, o); err != nil {
		return nil, err
	}
	opened = true
	return missed{c, leave}, nil
}
