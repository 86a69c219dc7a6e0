package dht

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	ds "github.com/ipfs/go-datastore"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/dht/guard"
	"allium/protocols/dht/routing"
	"allium/protocols/dht/seeds"
	"allium/protocols/dht/sweep"
	"allium/protocols/status"
)

// Deps is what discovery needs from the node.
type Deps struct {
	Host host.Host      // closed by the caller after Run has returned
	Key  crypto.PrivKey // Host's key; signs records

	// Roots lists what is announced again at every republish, anew each time it
	// is called; nil: nothing.
	Roots func() iter.Seq[b3.Root]
	// Has says whether this node can serve an object: when asked for it, it then
	// names itself, announced or not. It is cheap; nil: never.
	Has func(context.Context, b3.Root) bool
	// Denied says whether an object is not to be pointed at: who asks for its
	// providers is told of closer peers alone, as by a node that knows none. What
	// is published here of it is kept as ever, for the day that it is denied no
	// more. It neither waits nor does I/O; nil: nothing is.
	Denied func(b3.Root) bool
	// Datastore keeps records, the republish cycle and what is known of seeds
	// over a restart; nil: all of it is in memory. It is closed by the caller
	// after Run has returned.
	Datastore ds.Batching
	// Renewed counts how often Datastore was replaced by one that has nothing of
	// what was written before: all is then written again. nil: never.
	Renewed func() uint64
	// Elsewhere is told of a record that was signed with Key and not by this
	// service: another process runs with the same identity. It must not wait.
	// nil: nobody is told.
	Elsewhere func(signed time.Time, addrs []ma.Multiaddr)
	// SeedManifest reads the signed list of seeds; nil: there is none.
	SeedManifest func() ([]byte, error)
	// Now is the clock by which records are dated, and by which it is judged
	// whether records and the seed manifest have expired; nil: time.Now. What is
	// only measured or paced goes by time.Now.
	Now func() time.Time
	// ClockWrong reports whether that clock is known to be wrong: then nothing is
	// signed or published, and what is queued waits; nil: never.
	ClockWrong func() bool
	// MayExpire reports whether the clock is right, so that what has expired may
	// be deleted; nil: always.
	MayExpire func() bool
	// Cores is how many signatures are checked at one time; 0: GOMAXPROCS.
	Cores int

	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
	Limits  *limits.Registry      // nil: limits work and are listed nowhere
}

// Service is the node's part in discovery.
type Service struct {
	cfg  Config
	deps Deps
	self peer.ID
	m    *metrics

	table     *routing.Table
	guard     *guard.Guard
	store     *providerStore
	back      *dialback
	persist   *persister
	verify    *verifier
	lookups   *limits.Gate
	calls     *caller
	kadSender *kadSender
	exchange  *exchanger
	announces *announcer
	sweep     *sweep.Sweep
	boot      *seeds.Bootstrapper
	signed    *lru.Cache[b3.Root, sealed] // our own records of late
	began     time.Time
	seq       atomic.Uint64 // highest sequence number given out
	size      atomic.Int64  // estimated servers in the network; 0: not known yet

	mu  sync.Mutex
	run *running // nil unless Run is between ready and its end
}

// running is what exists while the service runs.
type running struct {
	ctx     context.Context
	engine  *engine
	server  *server
	lookups sync.WaitGroup // lookups and their probes; added to while Service.mu is held
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
	if deps.Roots == nil {
		deps.Roots = func() iter.Seq[b3.Root] { return func(func(b3.Root) bool) {} }
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Renewed == nil {
		deps.Renewed = func() uint64 { return 0 }
	}
	if deps.ClockWrong == nil {
		deps.ClockWrong = func() bool { return false }
	}
	deps.Cores = cmp.Or(deps.Cores, runtime.GOMAXPROCS(0))
	if deps.MayExpire == nil {
		deps.MayExpire = func() bool { return true }
	}
	if !deps.Host.ID().MatchesPrivateKey(deps.Key) {
		return nil, status.Errorf(status.BadRequest, "dht: the key is not the host's")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("dht: metrics: %w", err)
	}
	s := &Service{
		cfg: cfg, deps: deps, self: deps.Host.ID(), m: m,
		store: newProviderStore(cfg.MaxPerKey, cfg.MaxPerPeer, cfg.MaxRecords),
		verify: &verifier{now: deps.Now, gate: deps.Limits.NewGate(limits.Spec{
			Name: "dht.verify", Path: "provider exchange, lookups → signature checks", Policy: "waits within its deadline, then busy",
		}, int64(deps.Cores), 1024)},
		lookups: deps.Limits.NewGate(limits.Spec{
			Name: "dht.lookups", Path: "resolver, API, announcer, sweep → lookups", Policy: "512 wait within their deadline, then busy",
		}, int64(cfg.Lookups), waitingLookups),
	}
	s.began = deps.Now()
	s.verify.saw = s.sawOwn
	if err := s.newParts(); err != nil {
		return nil, err
	}
	return s, nil
}

// newParts makes what the service is made of. None of it starts anything.
func (s *Service) newParts() (err error) {
	h, log, reg, registry := s.deps.Host, s.deps.Log, s.deps.Metrics, s.deps.Limits
	s.table, err = routing.New(s.cfg.routing(), routing.Deps{
		Self: s.self, Addrs: s.addrs, Connected: s.isConnected, Log: log, Metrics: reg, Limits: registry,
	})
	if err != nil {
		return err
	}
	if s.guard, err = guard.New(s.cfg.Guard, guard.Deps{Log: log, Metrics: reg, Limits: registry, Cores: s.deps.Cores}); err != nil {
		return err
	}
	s.calls = &caller{
		host: eager{h.Network()}, timeout: s.cfg.RPCTimeout, table: s.table, connected: s.isConnected,
		dials: registry.NewGate(limits.Spec{
			Name: "dht.dials", Path: "lookups → dials of strangers", Policy: "wait within their deadline, then busy",
		}, int64(s.cfg.Dials), waitingDials),
	}
	if s.back, err = newDialback(dialer(h.Network()), s.store, s.deps.Now, s.m, registry); err != nil {
		return err
	}
	if s.signed, err = lru.New[b3.Root, sealed](recordCache); err != nil {
		return err
	}
	s.kadSender = &kadSender{calls: s.calls, latency: h.Peerstore(), m: s.m}
	s.exchange = &exchanger{calls: s.calls, m: s.m}
	if s.persist, err = newPersister(s.space(RecordsSpace), s.store, s.verify, s.deps.Renewed, reg, log); err != nil {
		return fmt.Errorf("dht: metrics: %w", err)
	}
	s.persist.mayExpire, s.store.mayExpire = s.deps.MayExpire, s.deps.MayExpire
	s.sweep, err = sweep.New(s.cfg.sweep(), sweep.Deps{
		Self: s.self, Router: s, Put: s.put, Addrs: h.Addrs, Datastore: s.space("sweep"), Renewed: s.deps.Renewed, Roots: s.deps.Roots, Log: log, Metrics: reg,
	})
	if err != nil {
		return err
	}
	s.announces = newAnnouncer(s.cfg, s.deps, s.m, s.provide, func(ctx context.Context, root b3.Root) error { return s.sweep.Add(ctx, root) }, s.TableSize)
	s.boot, err = seeds.New(s.cfg.Seeds, seeds.Deps{
		Self: s.self, Dialer: seeds.HostDialer(h), Manifest: s.deps.SeedManifest, Datastore: s.space("seeds"), Renewed: s.deps.Renewed,
		Ask: func(ctx context.Context, p peer.ID) ([]peer.AddrInfo, error) {
			return s.findNode(ctx, p, []byte(s.self))
		},
		Learned: s.learned, Peers: s.tableAddrs, Now: s.deps.Now, Log: log, Metrics: reg,
	})
	return err
}

// Run joins the network and serves it until ctx ends, or until a part of it
// fails, with that part's error. ready is called once the node answers; whether
// it knows anybody yet is told by Seeds and Fill.
func (s *Service) Run(ctx context.Context, ready func()) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// The table and the guard outlive what uses them.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var under, tasks sync.WaitGroup
	defer func() { cancel(); under.Wait() }()
	part := func(wg *sync.WaitGroup, ctx context.Context, run func(context.Context, func()) error) {
		ready := make(chan struct{})
		up := sync.OnceFunc(func() { close(ready) })
		wg.Go(func() {
			defer up()
			if err := run(ctx, up); err != nil {
				fail(err)
			}
		})
		<-ready
	}
	part(&under, base, s.table.Run)
	part(&under, base, s.guard.Run)

	kad, err := s.newKad()
	if err != nil {
		return fmt.Errorf("dht: start kad-dht: %w", err)
	}
	r := s.serve(ctx)
	tasks.Go(func() { s.janitor(ctx) })
	tasks.Go(func() { s.persist.run(ctx) })
	tasks.Go(func() { s.back.run(ctx) })
	tasks.Go(func() { s.refresh(ctx, kad) })
	tasks.Go(func() { s.announces.run(ctx) })
	part(&tasks, ctx, s.boot.Run)
	part(&tasks, ctx, s.sweep.Run)
	ready()
	<-ctx.Done()

	// What uses the table ends before the table does, and the host after both.
	s.setRunning(nil)
	s.deps.Host.RemoveStreamHandler(ProviderID)
	s.deps.Host.RemoveStreamHandler(KadID)
	r.lookups.Wait()
	tasks.Wait()
	r.server.close()
	if err := kad.Close(); err != nil {
		return fmt.Errorf("dht: stop kad-dht: %w", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serve answers the provider exchange and lets lookups begin.
func (s *Service) serve(ctx context.Context) *running {
	r := &running{ctx: ctx}
	r.engine = &engine{self: s.self, table: s.table, connected: s.connected, know: s.know, isConnected: s.isConnected, fixed: s.cfg.HedgeFixed, tasks: &r.lookups, m: s.m}
	r.server = &server{store: s.store, verify: s.verify, back: s.back, guard: s.guard, nearest: s.nearest, self: s.self, m: s.m, log: s.deps.Log, ctx: ctx}
	if s.deps.Has != nil {
		r.server.own = s.own
	}
	r.server.denied = s.deps.Denied
	s.setRunning(r)
	s.deps.Host.SetStreamHandler(ProviderID, r.server.handle)
	return r
}

// newKad starts kad-dht. Its provider and value stores are off: records have
// the exchange of OAP1 §11, from which GET_PROVIDERS is answered too, and an
// unbounded value store is for nobody.
func (s *Service) newKad() (*kaddht.IpfsDHT, error) {
	mode := kaddht.ModeAutoServer // in a network without public addresses nobody would be a server otherwise
	if s.cfg.Server {
		mode = kaddht.ModeServer
	}
	return kaddht.New(&kadHost{Host: s.guard.Host(s.deps.Host, KadID, maxMessage), answer: s.kadProviders},
		kaddht.ProtocolPrefix(Prefix),
		kaddht.Mode(mode),
		kaddht.BucketSize(s.cfg.K),
		kaddht.RoutingTablePeerDiversityFilter(newGroupShare(s.cfg, s.addrs)),
		kaddht.DisableProviders(),
		kaddht.DisableValues(),
		kaddht.WithCustomMessageSender(func(host.Host, []protocol.ID) pb.MessageSenderWithDisconnect {
			return s.kadSender
		}),
	)
}

// janitor drops expired records every minute, and counts them more often.
func (s *Service) janitor(ctx context.Context) {
	for i := 1; jitter.Sleep(ctx, 5*time.Second); i++ {
		if i%12 == 0 && s.deps.MayExpire() {
			s.store.sweep(s.deps.Now())
		}
		s.m.records.Set(float64(s.store.len()))
	}
}

func (s *Service) setRunning(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = r
}

// begin admits a lookup: it returns what runs, and a context that also ends
// with the service. The caller calls end, which may be called twice.
func (s *Service) begin(ctx context.Context) (_ *running, _ context.Context, end func(), err error) {
	s.mu.Lock()
	r := s.run
	if r != nil {
		r.lookups.Add(1)
	}
	s.mu.Unlock()
	if r == nil {
		return nil, nil, nil, status.Errorf(status.NotReady, "dht: discovery is not running")
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.ctx, cancel)
	wait, done := context.WithTimeout(ctx, s.cfg.FindTimeout)
	release, err := s.lookups.Acquire(wait)
	done()
	end = sync.OnceFunc(func() {
		stop()
		cancel()
		if release != nil {
			release()
		}
		r.lookups.Done()
	})
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	return r, ctx, end, nil
}

// TableSize is the number of peers in the routing table.
func (s *Service) TableSize() int { return s.table.Size() }

// Table lists the routing table.
func (s *Service) Table() []routing.Entry { return s.table.Entries() }

// Seeds lists the seeds and how they do.
func (s *Service) Seeds() []seeds.Info { return s.boot.Seeds() }

// SeedManifest is the state of the signed list of seeds.
func (s *Service) SeedManifest() seeds.ManifestInfo { return s.boot.Manifest() }

// RememberedPeers is how many peers would be dialled if no seed answered.
func (s *Service) RememberedPeers() int { return s.boot.Remembered() }

// Announce queues root to be published in the background; the sweep then
// publishes it again as long as Deps.Roots has it. A full queue is status.Busy.
func (s *Service) Announce(root b3.Root) error {
	if err := s.announces.add(root); err != nil {
		return fmt.Errorf("dht: announce %s: %w", root, err)
	}
	return nil
}
