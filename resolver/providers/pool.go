package providers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/record"
)

// Config bounds a [Pool]. The resolver's configuration documents the fields.
type Config struct {
	Deadline     time.Duration // of a lookup, and of a search through all sources
	HedgeAfter   time.Duration // a source of a search that takes longer is joined by the next
	StallTimeout time.Duration // of a request

	PeerRequests        int64 // in flight to one peer
	PeerRequestsWaiting int64 // beyond them; further ones are refused with busy

	CacheEntries             int   // lookups and answers remembered
	CacheBytes               int64 // memory that they may use
	PositiveTTL, NegativeTTL time.Duration
	Lookups                  int64 // running at the same time

	BreakerPeers    int
	BreakerWindow   time.Duration
	BreakerMinCalls int
	BreakerErrors   float64
	BreakerCooldown time.Duration
	BreakerProbes   int
}

// Deps holds the dependencies of a [Pool]. All but Finder, Client and Dialer may be missing.
type Deps struct {
	env.Env

	Finder Finder
	Hints  func(root b3.Root) []record.Provider // peers that recently announced root; must not block
	Client Client
	Dialer Dialer
	Self   peer.ID // this node, which is never asked

	Has     func(ctx context.Context, root b3.Root) (bool, error) // whether this node's store has root; may take long
	About   func(p peer.ID) Facts                                 // what the node knows of a peer; must not block
	Joining func() bool                                           // no peer is known yet, but a seed is; must not block
	// Connected returns the connected peers that serve objects. They are asked for the roots of fetches
	// before the DHT. It must not block. Nil: they are not asked.
	Connected func() []peer.ID
	Region    string // the region that ranks first; empty: none

	Latency prometheus.ObserverVec // by type; not recorded when nil
}

// Pool finds and asks the peers that may have objects. Its methods are safe for
// concurrent use.
type Pool struct {
	known
	cfg     *atomic.Pointer[Config]
	client  Client
	dialer  Dialer
	log     *slog.Logger
	m       *metrics
	peers   *peers
	lookups *lookups
	cache   *cache
	served  *lru.Cache[b3.Root, peer.ID] // the peer that last served a root, asked first for objects below it
}

// known holds the sources of what this node knows before it asks the network.
type known struct {
	self   peer.ID
	region string
	hints  func(b3.Root) []record.Provider
	store  *localStore
	// connected asks connected peers; nil: nobody does.
	connected *connected

	about func(peer.ID) Facts // nil: nothing
	own   atomic.Pointer[ownText]
	now   func() time.Time
}

// servedEntries bounds Pool.served, at under 100 bytes an entry.
const servedEntries = 4096

// New returns a pool. It starts nothing.
func New(cfg Config, d Deps) (*Pool, error) {
	served, err := lru.New[b3.Root, peer.ID](servedEntries)
	if err != nil {
		return nil, err
	}
	d.Env.SetDefaults()
	if d.Joining == nil {
		d.Joining = func() bool { return false }
	}
	if d.Hints == nil {
		d.Hints = func(b3.Root) []record.Provider { return nil }
	}
	m, live := newMetrics(d.Metrics, d.Latency), &atomic.Pointer[Config]{}
	live.Store(&cfg)
	p := &Pool{
		cfg: live, client: d.Client, dialer: d.Dialer, log: d.Log, m: m,
		peers: newPeers(cfg, d.Limits, m.breakerOpened.Inc), served: served, cache: newCache(cfg, d.Limits),
	}
	p.self, p.region, p.hints, p.about, p.now = d.Self, d.Region, d.Hints, d.About, d.Now
	guarded := func(f func() error) error { return p.Guard("", f) }
	if d.Self == "" {
		d.Has = nil // there is nobody to name
	}
	p.store = newLocalStore(d.Has, guarded, d.Limits)
	if d.Connected != nil {
		p.connected = &connected{
			peers: p.peers, all: d.Connected, next: d.Finder, cfg: live, guard: guarded,
			have: func(ctx context.Context, id peer.ID, root b3.Root) (b3.Presence, error) {
				ctx, cancel := context.WithTimeout(ctx, live.Load().StallTimeout)
				defer cancel()
				return have(ctx, d.Client, id, root)
			},
		}
		d.Finder = p.connected
	}
	p.lookups = newLookups(live, d, m, p.cache, guarded)
	env.MustRegister(d.Metrics, newBreakerStates(p.peers), newCacheSize(p.cache))
	return p, nil
}

// Sweep removes expired lookups and answers from the cache.
func (p *Pool) Sweep(now time.Time) { p.cache.sweep(now) }

// Served records that a peer sent verified bytes of root.
func (p *Pool) Served(root b3.Root, by peer.ID) {
	p.served.Add(root, by)
	p.peers.kept(by)
}

// Traits returns what requests to a peer have shown: its measurements, its standing and its breaker.
func (p *Pool) Traits(id peer.ID) Traits { return p.peers.traits(id, time.Now()) }

// Reconfigure changes Deadline and HedgeAfter. Lookups that run keep theirs.
func (p *Pool) Reconfigure(cfg Config) { p.cfg.Store(&cfg) }

// Silent records that a peer was late with a request that another peer answered. It ranks
// lower from then on.
func (p *Pool) Silent(id peer.ID) { p.peers.silent(id) }

// Throughput returns the measurement of a peer, which all transfers share.
func (p *Pool) Throughput(id peer.ID) *Throughput { return &p.peers.get(id).Throughput }
