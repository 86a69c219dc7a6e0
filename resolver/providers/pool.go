package providers

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/record"
)

// Config bounds a [Pool]. The resolver's configuration documents the fields.
type Config struct {
	Deadline     time.Duration // of a lookup
	StallTimeout time.Duration // of a request

	PeerRequests        int64 // in flight to one peer
	PeerRequestsWaiting int64 // beyond them; further ones are refused with busy

	CacheEntries             int // lookups remembered
	PositiveTTL, NegativeTTL time.Duration
	Lookups                  int64 // running at the same time

	BreakerPeers    int
	BreakerWindow   time.Duration
	BreakerMinCalls int
	BreakerErrors   float64
	BreakerCooldown time.Duration
	BreakerProbes   int
}

// Deps are what a [Pool] works with. Hints, Log, Metrics and Limits may be nil.
type Deps struct {
	Finder Finder
	Hints  func(root b3.Root) []record.Provider // peers that recently announced root; must not block
	Client Client
	Dialer Dialer
	Self   peer.ID // this node, which is never asked

	Log     *slog.Logger
	Metrics prometheus.Registerer
	Latency prometheus.ObserverVec // by type; not recorded when nil
	Limits  *limits.Registry
}

// Pool finds and asks the peers that may have objects. Its methods are safe for
// concurrent use.
type Pool struct {
	cfg     Config
	client  Client
	dialer  Dialer
	self    peer.ID
	log     *slog.Logger
	m       *metrics
	peers   *peers
	lookups *lookups
	hints   func(b3.Root) []record.Provider
	served  *lru.Cache[b3.Root, peer.ID] // the peer that last served a root, asked first for objects below it
}

// servedEntries bounds Pool.served, at under 100 bytes an entry.
const servedEntries = 4096

// New returns a pool. It starts nothing.
func New(cfg Config, d Deps) (*Pool, error) {
	served, err := lru.New[b3.Root, peer.ID](servedEntries)
	if err != nil {
		return nil, err
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	m := newMetrics(d.Metrics, d.Latency)
	p := &Pool{
		cfg: cfg, client: d.Client, dialer: d.Dialer, self: d.Self, log: d.Log, m: m,
		peers: newPeers(cfg, m.breakerOpened.Inc), hints: d.Hints, served: served,
	}
	if p.hints == nil {
		p.hints = func(b3.Root) []record.Provider { return nil }
	}
	p.lookups = newLookups(cfg, d, m, p.Guard)
	if d.Metrics != nil {
		d.Metrics.MustRegister(newBreakerStates(p.peers))
	}
	return p, nil
}

// Sweep removes expired lookups from the cache.
func (p *Pool) Sweep(now time.Time) { p.lookups.sweep(now) }

// Served records that a peer sent verified bytes of root.
func (p *Pool) Served(root b3.Root, by peer.ID) { p.served.Add(root, by) }

// Throughput returns the measurement of a peer, which all transfers share.
func (p *Pool) Throughput(id peer.ID) *Throughput { return &p.peers.get(id).Throughput }

// FindOptions say how to look for providers.
type FindOptions struct {
	Limit int  // most providers to yield, at most 20; 0 means 20
	Fresh bool // ask the network even when the answer is cached
}

// Find yields the peers that claim to have an object, each once. Unless opt.Fresh
// is set, peers that announced it by gossip come first and at once. Then come the
// peers that the DHT finds, as they are found, for at most Config.Deadline. When
// the search fails, by a timeout or by an error of the DHT, the sequence ends with
// that error. It is empty when no peer has the object.
func (p *Pool) Find(
	ctx context.Context, tasks Tasks, root b3.Root, opt FindOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		limit := opt.Limit
		if limit <= 0 || limit > maxProviders {
			limit = maxProviders
		}
		seen := map[peer.ID]bool{}
		give := func(p record.Provider, from record.Origin) (more bool) {
			if seen[p.ID] {
				return true
			}
			seen[p.ID] = true
			p.Origin = from
			return yield(p, nil) && len(seen) < limit
		}
		if !opt.Fresh {
			for _, p := range p.hints(root) {
				if !give(p, record.OriginGossip) {
					return
				}
			}
		}
		s := p.lookups.join(tasks, root, opt.Fresh)
		defer p.lookups.leave(s)
		for i := 0; ; i++ {
			p, ok, err := s.at(ctx, i)
			if err != nil {
				yield(record.Provider{}, err)
				return
			}
			if !ok || !give(p, record.OriginDHT) {
				return
			}
		}
	}
}
