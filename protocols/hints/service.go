package hints

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// Topic is the gossip topic of announcements (SPEC §4).
const Topic = "/allium/1/announce"

// Deps holds the dependencies of announcements on the node.
type Deps struct {
	env.Env

	Host host.Host      // the node closes it after Run has returned
	Key  crypto.PrivKey // the key of Host; signs announcements

	// Publish publishes data by gossip under Topic. One goroutine calls it, with a deadline.
	Publish func(ctx context.Context, data []byte) error

	// ClockWrong reports whether Now is known to be wrong. While it is, nothing is signed, and queued
	// changes wait. nil: never.
	ClockWrong func() bool
	// MayExpire reports whether Now is right, so that expired announcements may be dropped. nil: always.
	MayExpire func() bool

	// IgnorePeer reports whether a peer counts for nothing: its announcements are neither remembered nor
	// used. It neither waits nor does I/O. nil: never.
	IgnorePeer func(peer.ID) bool
}

// Service announces objects of this node and remembers what others announce. Its methods are safe
// for concurrent use.
type Service struct {
	cfg  Config
	deps Deps
	self peer.ID
	log  *slog.Logger
	m    *metrics

	memory *memory
	usage  *limits.Usage
	queue  *limits.Queue[change]
	sync   *syncer
	seq    uint64 // highest number used; only the publisher uses it
	ended  atomic.Bool
}

// maxHints bounds one result of Hints, like K of the DHT. searchedHints bounds the announcements from
// which it is taken, as the providers of some may be ignored by now.
const (
	maxHints      = 20
	searchedHints = 4 * maxHints
)

// sweepEvery is the interval at which expired announcements are dropped. Results never contain them.
const sweepEvery = 10 * time.Second

// New returns a Service that is not running. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil || deps.Key == nil || deps.Publish == nil {
		return nil, status.Errorf(status.BadRequest, "announce: a host, its key and a way to publish are needed")
	}
	if !deps.Host.ID().MatchesPrivateKey(deps.Key) {
		return nil, status.Errorf(status.BadRequest, "announce: the key is not the host's")
	}
	deps.Env.SetDefaults()
	if deps.ClockWrong == nil {
		deps.ClockWrong = func() bool { return false }
	}
	if deps.MayExpire == nil {
		deps.MayExpire = func() bool { return true }
	}
	if deps.IgnorePeer == nil {
		deps.IgnorePeer = func(peer.ID) bool { return false }
	}
	s := &Service{
		cfg:    cfg,
		deps:   deps,
		self:   deps.Host.ID(),
		log:    deps.Log,
		memory: newMemory(cfg.MaxAnnouncements, int64(cfg.MaxBytes)),
	}
	var err error
	if s.m, err = newMetrics(deps.Metrics, s.memory); err != nil {
		return nil, fmt.Errorf("announce: metrics: %w", err)
	}
	s.queue = limits.NewQueue[change](deps.Limits, queueSpec, cfg.Queue)
	s.usage = deps.Limits.NewUsage(limits.Spec{
		Name: "announce.held", Path: "gossip, comparisons → hints",
		Policy: "drop the oldest of the provider with most; comparisons bring no more",
	}, int64(cfg.MaxBytes), func() int64 { _, _, bytes := s.memory.usage(); return bytes })
	if s.sync, err = newSyncer(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Run announces, compares and drops expired announcements until ctx ends. It may be called once;
// after it, Announce and Withdraw return status.Draining.
func (s *Service) Run(ctx context.Context, ready func()) error {
	arrivals, err := s.deps.Host.EventBus().Subscribe(new(event.EvtPeerIdentificationCompleted))
	if err != nil {
		return fmt.Errorf("announce: listen for new peers: %w", err)
	}
	var tasks sync.WaitGroup
	serving := s.sync.serve(ctx)
	tasks.Go(func() { s.publish(ctx) })
	tasks.Go(func() { s.sync.run(ctx) })
	tasks.Go(func() { s.sync.watch(ctx, arrivals) })
	tasks.Go(func() { s.forget(ctx) })
	ready()
	<-ctx.Done()
	s.ended.Store(true)
	tasks.Wait()
	serving()
	return nil
}

// forget drops expired announcements until ctx ends, while the clock is right.
func (s *Service) forget(ctx context.Context) {
	for jitter.Sleep(ctx, sweepEvery) {
		if s.deps.MayExpire() && s.memory.sweep(s.deps.Now()) {
			s.sync.reconsider()
		}
	}
}

// Announce announces in the background, once, that this node has root, together with the other
// objects of the same Config.Linger. It does not wait. It returns status.Busy if the queue is full
// and status.Draining if the node stops.
func (s *Service) Announce(root b3.Root) error { return s.tell(root, false) }

// Withdraw replaces the announcements that name root, if any, with ones that do not. Its errors are
// those of Announce.
func (s *Service) Withdraw(root b3.Root) error { return s.tell(root, true) }

// Hints returns up to 20 providers that announced root, never this node, in random order. The
// claim is theirs; it is not verified.
func (s *Service) Hints(root b3.Root) []record.Provider {
	found := s.memory.providers(root, s.self, searchedHints, s.deps.Now())
	found = slices.DeleteFunc(found, func(a *announcement) bool { return s.deps.IgnorePeer(a.provider) })
	found = found[:min(len(found), maxHints)]
	hints := make([]record.Provider, len(found))
	for i, a := range found {
		hints[i] = record.Provider{
			AddrInfo: peer.AddrInfo{ID: a.provider, Addrs: a.addrs},
			Origin:   record.OriginGossip,
			NotAfter: a.notAfter,
			Seq:      a.seq,
		}
	}
	return hints
}

// Validate checks an announcement that gossip brought, signed by from, in well under 1 ms. An error
// means that the message must not spread. An invalid message is status.BodyCap, BadRequest,
// BadSignature or NotAllowed (from is not the provider); a late one is status.Stale.
func (s *Service) Validate(from peer.ID, data []byte) error {
	err := s.validate(from, data, s.deps.Now())
	if err != nil {
		s.m.refuse(viaGossip, err)
	}
	return err
}

func (s *Service) validate(from peer.ID, data []byte, now time.Time) error {
	a, err := trust(data, now)
	if err != nil {
		return err
	}
	if a.provider != from {
		return status.Errorf(status.NotAllowed, "announce: by another than the provider")
	}
	if here, err := s.memory.known(a, now); here || err != nil {
		return err
	}
	_, err = verify(data, now)
	return err
}

// Handle remembers an announcement that Validate accepted and that the connected peer via brought.
func (s *Service) Handle(_ context.Context, via peer.ID, data []byte) {
	now := s.deps.Now()
	a, err := trust(data, now)
	if err == nil {
		a.origin = s.originOf(via)
		err = s.keep(a, viaGossip, now)
	}
	if err != nil {
		s.m.refuse(viaGossip, err)
	}
}

// originOf returns the origin of announcements that p brings: the IP group of its connection, or p
// itself if that is in none.
func (s *Service) originOf(p peer.ID) string {
	for _, c := range s.deps.Host.Network().ConnsToPeer(p) {
		return ipgroup.Key(c.RemoteMultiaddr(), p)
	}
	return ipgroup.Key(unconnected, p)
}

// unconnected stands for the address of a peer that has disconnected.
var unconnected = ma.StringCast("/ip4/127.0.0.1")

// keep remembers a verified announcement. After a new one from gossip, a comparison follows soon,
// because gossip may have dropped others. One of an ignored provider is status.Denied.
func (s *Service) keep(a *announcement, from via, now time.Time) error {
	if s.deps.IgnorePeer(a.provider) {
		return status.Errorf(status.Denied, "announce: the provider is denied")
	}
	fresh, err := s.memory.put(a, from, now)
	if fresh {
		s.m.accepted.WithLabelValues(string(from)).Inc()
		s.usage.Grown()
		if from == viaGossip {
			s.sync.poke()
		}
	}
	return err
}
