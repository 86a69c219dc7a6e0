package dialback

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Bounds of the checks.
const (
	workers      = 4
	queueSize    = 256              // providers that wait
	dialRate     = 5                // dials per second; a burst may be twice as large
	dialTimeout  = 3 * time.Second  // of one dial, handshake included
	maxAddrs     = 2                // addresses dialed of one provider
	maxResults   = 4096             // providers whose last result is remembered
	reachedFor   = 12 * time.Hour   // how long a success counts
	unreachedFor = 10 * time.Minute // how long a failure counts
)

// DialFunc opens a new connection to a peer at an address and closes it.
type DialFunc func(ctx context.Context, p peer.ID, a ma.Multiaddr) error

// Deps holds the dependencies of a Checker on the node.
type Deps struct {
	env.Env

	Dial DialFunc // nil: no provider is dialed
}

// Checker dials providers back. Its methods are safe for concurrent use.
type Checker struct {
	deps   Deps
	checks *prometheus.CounterVec // result
	rate   *limits.Rate
	queue  *limits.FairQueue[string, check]

	results *lru.Cache[Provider, result]

	mu      sync.Mutex            // lock: leaf
	pending map[Provider]struct{} // queued or being dialed; at most queueSize + workers
}

// Provider is a provider as seen from an IP group. The same peer in another group is
// checked separately.
type Provider struct {
	ID    peer.ID
	Group string // see ipgroup.Key
}

// result is the outcome of a check.
type result struct {
	reached bool
	expires time.Time
}

// check is a queued provider.
type check struct {
	provider Provider
	addrs    []ma.Multiaddr
	reached  func()
}

// Dialer returns a DialFunc that opens a new connection even if one exists. It returns
// nil if n cannot do that.
func Dialer(n network.Network) DialFunc {
	transports, ok := n.(interface {
		TransportForDialing(ma.Multiaddr) transport.Transport
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context, p peer.ID, a ma.Multiaddr) error {
		t := transports.TransportForDialing(a)
		if t == nil {
			return status.Errorf(status.TransportDown, "no transport for %s", a)
		}
		c, err := t.Dial(ctx, a, p)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// New returns a Checker that is not running.
func New(deps Deps) (*Checker, error) {
	deps.Env.SetDefaults()
	checks, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register dial-back metrics: %w", err)
	}
	results, err := lru.New[Provider, result](maxResults)
	if err != nil {
		return nil, err
	}
	const path = "provider exchange → dials of providers"
	return &Checker{
		deps: deps, checks: checks, results: results, pending: map[Provider]struct{}{},
		rate: deps.Limits.NewRate(limits.Spec{
			Name: "dht.dialback_rate", Path: path, Policy: "wait",
		}, dialRate, 2*dialRate),
		queue: limits.NewFairQueue[string, check](deps.Limits, limits.Spec{
			Name: "dht.dialback", Path: path,
			Policy: "drop the newest provider of the IP group that has most waiting",
		}, queueSize, workers),
	}, nil
}

// Source returns the remote peer and IP group of c, and whether that peer is known to be
// reachable from there. A direct connection that this node dialed proves it too.
func (d *Checker) Source(c network.Conn) (p Provider, reached bool) {
	p = Provider{c.RemotePeer(), ipgroup.Key(c.RemoteMultiaddr(), c.RemotePeer())}
	stat := c.Stat()
	if stat.Direction == network.DirOutbound && !stat.Limited {
		return p, true
	}
	r, ok := d.last(p)
	return p, ok && r.reached
}

// last returns the result of the last check, and false if there is none or it expired.
func (d *Checker) last(p Provider) (result, bool) {
	r, ok := d.results.Get(p)
	return r, ok && d.deps.Now().Before(r.expires)
}

// Check queues p to be dialed in the background, unless its last result still counts or
// it is already queued. from is the remote address of p's connection; Check uses the
// first two of addrs that are on the same host. On success a worker calls reached, once.
// Check does not wait. If the queue is full, it drops the newest provider of the IP group
// that has most waiting.
func (d *Checker) Check(p Provider, addrs []ma.Multiaddr, from ma.Multiaddr, reached func()) {
	addrs = sameHost(addrs, from)
	if d.deps.Dial == nil || len(addrs) == 0 || !d.begin(p) {
		return
	}
	dropped, err := d.queue.TryPut(p.Group, check{p, addrs, reached})
	if dropped != nil {
		d.finish(dropped.Item.provider, "dropped")
	}
	if err != nil {
		d.finish(p, "dropped")
	}
}

// begin adds p to pending. It returns false if p is pending or was checked recently.
func (d *Checker) begin(p Provider) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, pending := d.pending[p]; pending {
		return false
	}
	if _, known := d.last(p); known {
		return false
	}
	d.pending[p] = struct{}{}
	return true
}

// sameHost returns up to maxAddrs of addrs that have the IP address of from. It returns
// none if from is the address of a relay.
func sameHost(addrs []ma.Multiaddr, from ma.Multiaddr) (same []ma.Multiaddr) {
	host, ok := direct(from)
	for _, a := range addrs {
		if ip, direct := direct(a); ok && direct && ip == host && len(same) < maxAddrs {
			same = append(same, a)
		}
	}
	return same
}

// direct returns the IP address of a, and false if a has none or goes through a relay.
func direct(a ma.Multiaddr) (netip.Addr, bool) {
	if slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == ma.P_CIRCUIT }) {
		return netip.Addr{}, false
	}
	return ipgroup.IP(a)
}

// Run dials queued providers until ctx ends. It returns nil when every dial has returned.
func (d *Checker) Run(ctx context.Context, ready func()) error {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				c, err := d.queue.Get(ctx)
				if err != nil {
					return
				}
				d.dial(ctx, c)
				d.queue.Done(c.provider.Group)
			}
		})
	}
	ready()
	running.Wait()
	return nil
}

// dial tries the addresses of one provider until one of them answers.
func (d *Checker) dial(ctx context.Context, c check) {
	r, label := result{expires: d.deps.Now().Add(unreachedFor)}, "unreached"
	for _, a := range c.addrs {
		if err := d.rate.Wait(ctx, 1, time.Minute); err != nil {
			d.finish(c.provider, "dropped")
			return
		}
		dial, cancel := context.WithTimeout(ctx, dialTimeout)
		err := d.deps.Dial(dial, c.provider.ID, a)
		cancel()
		if err == nil {
			r, label = result{true, d.deps.Now().Add(reachedFor)}, "reached"
			break
		}
	}
	d.results.Add(c.provider, r)
	d.finish(c.provider, label)
	if r.reached {
		c.reached()
	}
}

// finish counts the outcome of a check and removes p from pending.
func (d *Checker) finish(p Provider, label string) {
	d.checks.WithLabelValues(label).Inc()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pending, p)
}
