package dht

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Deps is what discovery needs from the node.
type Deps struct {
	Host  host.Host                // closed by the caller after Run has returned
	Key   crypto.PrivKey           // Host's key; signs records
	Roots func() iter.Seq[b3.Root] // what to announce again at every republish; nil: nothing
	// Has says whether this node can serve an object: when asked for it, it then
	// names itself, announced or not. It is cheap; nil: never.
	Has     func(context.Context, b3.Root) bool
	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
	Limits  *admission.Registry   // nil: limits work and are listed nowhere
}

// Service is the node's part in discovery.
type Service struct {
	cfg  Config
	deps Deps
	self peer.ID
	m    *metrics

	store     *providerStore
	verify    *verifier
	inflight  *admission.Gate
	rate      *admission.Rate
	calls     *caller
	exchange  *exchanger
	announces *announcer
	boot      *bootstrapper
	seq       atomic.Uint64 // highest sequence number given out

	mu  sync.Mutex
	run *running // nil unless Run is between ready and its end
}

// running is what exists while the service runs.
type running struct {
	ctx    context.Context
	table  *kb.RoutingTable
	lookup lookup
}

// New checks the configuration and starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil || deps.Key == nil {
		return nil, status.Errorf(status.BadRequest, "dht: a host and its key are needed")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if !deps.Host.ID().MatchesPrivateKey(deps.Key) {
		return nil, status.Errorf(status.BadRequest, "dht: the key is not the host's")
	}
	seeds, err := cfg.seeds()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("dht: metrics: %w", err)
	}
	calls := &caller{host: deps.Host, timeout: cfg.RPCTimeout}
	s := &Service{
		cfg: cfg, deps: deps, self: deps.Host.ID(), m: m,
		store: newProviderStore(cfg.MaxPerKey, cfg.MaxPerPeer, cfg.MaxRecords),
		verify: &verifier{deps.Limits.NewGate(admission.Spec{
			Name: "dht.verify", Path: "provider exchange, lookups → signature checks", Policy: "waits within its deadline, then busy",
		}, int64(runtime.GOMAXPROCS(0)), 1024)},
		inflight: deps.Limits.NewGate(admission.Spec{
			Name: "dht.prov.inflight", Path: "stream handler → provider exchange", Policy: "the stream is reset with a code",
		}, int64(cfg.MaxInflight), 0),
		rate: deps.Limits.NewRate(admission.Spec{
			Name: "dht.prov.rate", Path: "provider exchange", Policy: "reject rate_limit",
		}, float64(cfg.Rate), cfg.Rate),
		calls:    calls,
		exchange: &exchanger{calls: calls, m: m},
	}
	s.boot = newBootstrapper(s.self, seeds, hostDialer{deps.Host}, m, deps.Log)
	s.announces = newAnnouncer(cfg, deps, s.provide, s.TableSize, m)
	return s, nil
}

// Run joins the network and serves it until ctx ends. ready is called once the
// node answers; whether it knows anybody yet is told by Seeds and TableSize.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kad, err := s.newKad()
	if err != nil {
		return fmt.Errorf("dht: start kad-dht: %w", err)
	}
	srv := &server{
		store: s.store, verify: s.verify, inflight: s.inflight, rate: s.rate, m: s.m, log: s.deps.Log, ctx: ctx,
		nearest: func(root b3.Root, asking peer.ID) []peer.AddrInfo { return s.nearest(kad.RoutingTable(), root, asking) },
		self:    s.self,
	}
	if s.deps.Has != nil {
		srv.own = s.own
	}
	s.setRunning(&running{ctx: ctx, table: kad.RoutingTable(), lookup: &tableLookup{
		self: s.self, table: kad.RoutingTable(), connected: s.connected, know: s.know, query: kad.GetClosestPeers,
		drop: func(p peer.ID) { s.drop(kad.RoutingTable(), p) },
		k:    s.cfg.K, alpha: s.cfg.Alpha, hops: s.cfg.HopBudget,
	}})
	s.deps.Host.SetStreamHandler(ProviderID, srv.handle)

	var tasks sync.WaitGroup
	tasks.Go(func() { s.janitor(ctx) })
	tasks.Go(func() { s.refill(ctx, kad) })
	tasks.Go(func() { s.boot.run(ctx) })
	tasks.Go(func() { s.announces.run(ctx) })
	ready()
	<-ctx.Done()

	// What uses the table ends before the table does, and the host after both.
	s.setRunning(nil)
	s.deps.Host.RemoveStreamHandler(ProviderID)
	s.deps.Host.RemoveStreamHandler(KadID)
	tasks.Wait()
	srv.close()
	if err := kad.Close(); err != nil {
		return fmt.Errorf("dht: stop kad-dht: %w", err)
	}
	return nil
}

// newKad starts kad-dht. Its provider and value stores are off: records have
// the exchange of OAP1 §11, and an unbounded value store is for nobody.
func (s *Service) newKad() (*kaddht.IpfsDHT, error) {
	mode := kaddht.ModeAutoServer // in a network without public addresses nobody would be a server otherwise
	if s.cfg.Server {
		mode = kaddht.ModeServer
	}
	return kaddht.New(s.deps.Host,
		kaddht.ProtocolPrefix(Prefix),
		kaddht.Mode(mode),
		kaddht.BucketSize(s.cfg.K),
		kaddht.DisableProviders(),
		kaddht.DisableValues(),
		kaddht.WithCustomMessageSender(func(host.Host, []protocol.ID) pb.MessageSenderWithDisconnect {
			return &kadSender{calls: s.calls, latency: s.deps.Host.Peerstore(), m: s.m}
		}),
	)
}

// nearest is what a get is told of closer peers: the k closest to the key that
// are in the table, but for who asks.
func (s *Service) nearest(table *kb.RoutingTable, root b3.Root, asking peer.ID) []peer.AddrInfo {
	ids := table.NearestPeers(kb.ConvertKey(string(root.Multihash())), s.cfg.K+1)
	infos := make([]peer.AddrInfo, 0, len(ids))
	for _, id := range ids {
		if id == asking || len(infos) == s.cfg.K {
			continue
		}
		if info := s.deps.Host.Peerstore().PeerInfo(id); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}

// know remembers the addresses of a peer heard of, for a dial that follows.
func (s *Service) know(info peer.AddrInfo) {
	h := s.deps.Host
	if len(info.Addrs) > 0 && h.Network().Connectedness(info.ID) != network.Connected {
		h.Peerstore().AddAddrs(info.ID, info.Addrs, peerstore.TempAddrTTL)
	}
}

// connected lists connected peers that speak the provider exchange, at most k.
func (s *Service) connected() []peer.ID {
	var peers []peer.ID
	for _, p := range s.deps.Host.Network().Peers() {
		if got, err := s.deps.Host.Peerstore().SupportsProtocols(p, ProviderID); err == nil && len(got) > 0 && len(peers) < s.cfg.K {
			peers = append(peers, p)
		}
	}
	return peers
}

// drop takes a peer that did not answer out of the table, unless it is
// connected: then it may only be busy, and kad-dht's refresh decides.
func (s *Service) drop(table *kb.RoutingTable, p peer.ID) {
	if s.deps.Host.Network().Connectedness(p) != network.Connected {
		table.RemovePeer(p)
	}
}

// janitor drops expired records.
func (s *Service) janitor(ctx context.Context) {
	for sleep(ctx, time.Minute) {
		s.m.records.Set(float64(s.store.sweep(time.Now())))
	}
}

// refill sees to it that an empty table does not stay empty while there are
// connections: kad-dht looks at the peers it is connected to when they connect,
// and then every two minutes.
func (s *Service) refill(ctx context.Context, kad *kaddht.IpfsDHT) {
	for sleep(ctx, 2*time.Second) {
		n := kad.RoutingTable().Size()
		s.m.tablePeers.Set(float64(n))
		if n == 0 && len(s.deps.Host.Network().Peers()) > 0 {
			_ = kad.Bootstrap(ctx) // only asks for it, and always returns nil
		}
	}
}

func (s *Service) setRunning(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = r
}

func (s *Service) current() *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// begin returns what runs, and a context that also ends with the service and
// after d. The caller calls end.
func (s *Service) begin(ctx context.Context, d time.Duration) (_ *running, _ context.Context, end func(), err error) {
	r := s.current()
	if r == nil {
		return nil, nil, nil, status.Errorf(status.NotReady, "dht: discovery is not running")
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(r.ctx, cancel)
	return r, ctx, func() { stop(); cancel() }, nil
}

// TableSize is the number of peers in the routing table.
func (s *Service) TableSize() int {
	if r := s.current(); r != nil {
		return r.table.Size()
	}
	return 0
}

// TablePeer is one peer of the routing table.
type TablePeer struct {
	ID     peer.ID
	Bucket int       // bits that its key has in common with ours
	Since  time.Time // when it was added
}

// Table lists the routing table.
func (s *Service) Table() []TablePeer {
	r := s.current()
	if r == nil {
		return nil
	}
	self := kb.ConvertPeerID(s.self)
	infos := r.table.GetPeerInfos()
	peers := make([]TablePeer, len(infos))
	for i, p := range infos {
		peers[i] = TablePeer{ID: p.Id, Bucket: kb.CommonPrefixLen(self, kb.ConvertPeerID(p.Id)), Since: p.AddedAt}
	}
	return peers
}

// Seeds lists the configured seeds and how they do.
func (s *Service) Seeds() []SeedInfo { return s.boot.seeds() }

// Announce queues root to be published in the background, again at every
// republish as long as Deps.Roots has it. A full queue is status.Busy.
func (s *Service) Announce(root b3.Root) error {
	if err := s.announces.add(root); err != nil {
		return fmt.Errorf("dht: announce %s: %w", root, err)
	}
	return nil
}
