package dht

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	ds "github.com/ipfs/go-datastore"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/internal/guard"
	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/dht/allowance"
	"allium/protocols/dht/dialback"
	"allium/protocols/dht/persist"
	"allium/protocols/dht/routing"
	"allium/protocols/dht/seeds"
	"allium/protocols/dht/sweep"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Filter tells which objects and names the node must not help others to find. Its methods return an error for those.
// They neither wait nor do I/O.
type Filter interface {
	Object(root b3.Root) error
	Name(n name.Name) error
}

// Deps holds the dependencies of discovery on the node.
type Deps struct {
	env.Env

	Host host.Host      // the node closes it after Run has returned
	Key  crypto.PrivKey // the key of Host; signs records

	// Roots lists the objects to publish at every republish. Each call starts a new
	// listing. nil: none.
	Roots func() iter.Seq[b3.Root]
	// Has reports whether this node can serve an object. If it can, the node names
	// itself as a provider when a peer asks, published or not. It must be cheap. nil:
	// never.
	Has func(context.Context, b3.Root) bool
	// Filter is asked before peers are told the records of an object or a name. If it denies
	// them, the peer receives only closer peers, as from a node without records. The records
	// are still stored, for the day the denial ends.
	Filter Filter
	// IgnorePeer reports whether a peer counts for nothing: its records are neither used nor passed
	// on, and no lookup asks it or names it. It neither waits nor does I/O. nil: never.
	IgnorePeer func(peer.ID) bool
	// PrivateNetwork says that all peers have a common network key. Then each may be told private
	// addresses, also one that comes from a public address.
	PrivateNetwork bool
	// Datastore keeps records, the republish cycle and known seeds across restarts.
	// nil: they are in memory only. The node closes it after Run has returned.
	Datastore ds.Batching
	// Replacements returns how often Datastore was replaced by an empty one. After
	// each replacement everything is written again. nil: never replaced.
	Replacements func() uint64
	// DuplicateIdentity is called with a record that was signed with Key but not by
	// this service: another process runs with the same identity. It must not wait.
	// nil: not called.
	DuplicateIdentity func(signed time.Time, addrs []ma.Multiaddr)
	// ExplainDial returns why a dial of a peer failed, in words. nil: the text of the error.
	ExplainDial func(p peer.ID, err error) error
	// SeedManifest reads the signed list of seeds. nil: there is none.
	SeedManifest func() ([]byte, error)
	// ClockWrong reports whether Now is known to be wrong. While it is, nothing is
	// signed or published, and queued objects wait. nil: never.
	ClockWrong func() bool
	// MayExpire reports whether Now is right, so that expired records may be deleted.
	// nil: always.
	MayExpire func() bool
	// Cores is the number of signatures checked at a time, and the number of
	// processors that the guard counts on. 0: GOMAXPROCS.
	Cores int
}

// Service is this node's part in discovery. Its methods are safe for concurrent use.
type Service struct {
	*Names
	cfg  atomic.Pointer[Config] // in force; a lookup reads it once
	deps Deps
	self peer.ID
	m    *metrics

	table        *routing.Table
	guard        *allowance.Guard
	store        *providerStore
	dialback     *dialback.Checker
	persist      *persist.Persister[recordKey]
	verify       *verifier
	lookups      *admission
	rpc          *rpcClient
	walk         *walker
	kad          *kadServer
	announcer    *announcer
	providers    *providerClient
	publisher    *publisher
	sweep        *sweep.Sweep
	bootstrapper *seeds.Bootstrapper
	signer       *signer
	near         *neighbours
	refresher    *refresher
}

// New returns a Service that is not running. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil || deps.Key == nil || deps.Filter == nil {
		return nil, status.Errorf(status.BadRequest, "discovery needs a host, its key and a filter")
	}
	deps.Env.SetDefaults()
	if deps.Roots == nil {
		deps.Roots = func() iter.Seq[b3.Root] { return func(func(b3.Root) bool) {} }
	}
	if deps.IgnorePeer == nil {
		deps.IgnorePeer = func(peer.ID) bool { return false }
	}
	if deps.Replacements == nil {
		deps.Replacements = func() uint64 { return 0 }
	}
	if deps.ClockWrong == nil {
		deps.ClockWrong = func() bool { return false }
	}
	deps.Cores = cmp.Or(deps.Cores, runtime.GOMAXPROCS(0))
	if deps.MayExpire == nil {
		deps.MayExpire = func() bool { return true }
	}
	if !deps.Host.ID().MatchesPrivateKey(deps.Key) {
		return nil, status.Errorf(status.BadRequest, "the key does not belong to the host")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register discovery metrics: %w", err)
	}
	s := &Service{
		deps: deps, self: deps.Host.ID(), m: m,
		store: newProviderStore(cfg.MaxPerKey, cfg.MaxPerPeer, cfg.MaxRecords),
		verify: &verifier{now: deps.Now, cores: deps.Env.Cores, gate: deps.Limits.NewGate(limits.Spec{
			Name: "dht.verify", Path: "provider exchange, lookups → signature checks",
			Policy: "wait within the request's deadline, then busy",
		}, int64(deps.Cores), 1024)},
	}
	s.lookups = &admission{cfg: &s.cfg, gate: deps.Limits.NewGate(limits.Spec{
		Name: "dht.lookups", Path: "resolver, API, announcer, sweep → lookups",
		Policy: "512 wait within their deadline, then busy",
	}, int64(cfg.Lookups), maxWaitingLookups)}
	s.near = &neighbours{cfg: &s.cfg, host: deps.Host, ignores: deps.IgnorePeer, private: deps.PrivateNetwork}
	s.cfg.Store(&cfg)
	if err := s.newParts(); err != nil {
		return nil, err
	}
	return s, nil
}

// newParts constructs the parts of the service. It starts none of them.
func (s *Service) newParts() (err error) {
	h, e := s.deps.Host, s.deps.Env
	s.table, err = routing.New(s.cfg.Load().routingConfig(), routing.Deps{
		Env: e, Self: s.self, Addrs: s.near.addrs, Connected: s.near.isConnected,
	})
	if err != nil {
		return err
	}
	s.near.table = s.table
	s.guard, err = allowance.New(s.cfg.Load().Guard, allowance.Deps{Env: e, Cores: s.deps.Cores})
	if err != nil {
		return err
	}
	s.rpc = &rpcClient{
		host: lazyOpener{h.Network()}, timeout: s.cfg.Load().RPCTimeout, table: s.table, connected: s.near.isConnected,
		dials: e.Limits.NewGate(limits.Spec{
			Name: "dht.dials", Path: "lookups → dials of strangers", Policy: "wait within their deadline, then busy",
		}, int64(s.cfg.Load().Dials), maxWaitingDials),
	}
	s.dialback, err = dialback.New(dialback.Deps{Env: e, Dial: dialback.Dialer(h.Network())})
	if err != nil {
		return err
	}
	if s.signer, err = newSigner(&s.cfg, s.deps, s.store, s.verify.gate); err != nil {
		return err
	}
	s.verify.onVerified = s.signer.checkDuplicate
	s.walk = &walker{s.lookups, &kadSender{rpc: s.rpc, latency: h.Peerstore(), m: s.m}}
	s.kad = &kadServer{near: s.near, guard: s.guard, walk: s.walk, m: s.m}
	s.providers = &providerClient{rpc: s.rpc, m: s.m}
	s.announcer = &announcer{s.signer, s.walk, s.providers}
	s.store.mayExpire, s.store.ignores = s.deps.MayExpire, s.deps.IgnorePeer
	s.persist = newPersister(s.namespace(RecordsSpace), s.store, s.verify, persist.Deps{
		Env: e, Replacements: s.deps.Replacements, MayExpire: s.deps.MayExpire, Count: s.m.persisted,
	})
	s.Names = newNames(s)
	s.sweep, err = sweep.New(s.cfg.Load().sweepConfig(), sweep.Deps{
		Env: e, Self: s.self, Router: s.walk, Put: s.announcer.put, Addrs: h.Addrs, Roots: s.deps.Roots,
		Datastore: s.namespace("sweep"), Replacements: s.deps.Replacements,
	})
	if err != nil {
		return err
	}
	addToSweep := func(ctx context.Context, root b3.Root) error { return s.sweep.Add(ctx, root) }
	s.publisher = newPublisher(*s.cfg.Load(), s.deps, s.m, s.announcer.provide, addToSweep, s.TableSize)
	s.bootstrapper, err = seeds.New(s.cfg.Load().Seeds, seeds.Deps{
		Env: e, Self: s.self, Dialer: seeds.HostDialer(h), Manifest: s.deps.SeedManifest, Explain: s.deps.ExplainDial,
		Datastore: s.namespace("seeds"), Replacements: s.deps.Replacements,
		Ask: func(ctx context.Context, p peer.ID) ([]peer.AddrInfo, error) {
			return s.walk.findNode(ctx, p, []byte(s.self))
		},
		Learned: s.near.rememberAll, Peers: s.near.tableAddrs,
	})
	s.refresher = &refresher{near: s.near, self: s.self, m: s.m, walk: s.walk}
	return err
}

// Run joins the network and serves peers until ctx ends. It returns nil then, or
// earlier the error of a part that failed. It calls ready when the node answers peers;
// Seeds and Fill tell whether it knows any peer yet.
func (s *Service) Run(ctx context.Context, ready func()) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// The table and the guard run until their users have stopped.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var under, tasks sync.WaitGroup
	defer func() { cancel(); under.Wait() }()
	begin := func(wg *sync.WaitGroup, run func() error) {
		wg.Go(func() {
			if err := guard.Run(run); err != nil {
				fail(err)
			}
		})
	}
	part := func(wg *sync.WaitGroup, ctx context.Context, run func(context.Context, func()) error) {
		ready := make(chan struct{})
		up := sync.OnceFunc(func() { close(ready) })
		begin(wg, func() error { defer up(); return run(ctx, up) })
		<-ready
	}
	task := func(run func(context.Context)) { begin(&tasks, func() error { run(ctx); return nil }) }
	part(&under, base, s.table.Run)
	part(&under, base, s.guard.Run)

	kad, err := s.newKad()
	if err != nil {
		return fmt.Errorf("start kad-dht: %w", err)
	}
	r := s.serve(ctx, kad)
	task(s.janitor)
	task(s.persist.Run)
	for _, p := range s.persistNames {
		task(p.Run)
	}
	task(s.passOn)
	task(func(ctx context.Context) { s.refresher.run(ctx, kad) })
	task(s.publisher.run)
	part(&tasks, ctx, s.dialback.Run)
	part(&tasks, ctx, s.bootstrapper.Run)
	part(&tasks, ctx, s.sweep.Run)
	ready()
	<-ctx.Done()

	// Stop the users of the table before the table. The node stops the host last.
	s.lookups.setRunning(nil)
	s.deps.Host.RemoveStreamHandler(ProviderID)
	s.deps.Host.RemoveStreamHandler(KadID)
	r.lookups.Wait()
	tasks.Wait()
	r.server.close()
	if err := kad.Close(); err != nil {
		return fmt.Errorf("stop kad-dht: %w", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serve installs the provider exchange and admits lookups.
func (s *Service) serve(ctx context.Context, kad *kaddht.IpfsDHT) *running {
	r := &running{ctx: ctx, kad: kad}
	r.engine = &engine{
		self: s.self, table: s.table, connected: s.near.connected, rememberAddrs: s.near.remember,
		isConnected: s.near.isConnected, ignores: s.deps.IgnorePeer, fixedHedge: s.cfg.Load().HedgeFixed,
		tasks: &r.lookups,
		count: s.deps.Tasks, m: s.m,
	}
	r.server = &server{
		held: held{store: s.store, names: s.names, verify: s.verify}, dialback: s.dialback, guard: s.guard,
		nearest: s.near.nearest, self: s.self, filter: s.deps.Filter, m: s.m, log: s.deps.Log, ctx: ctx,
	}
	if s.deps.Has != nil {
		r.server.ownRecord = s.signer.ofHeld
	}
	s.lookups.setRunning(r)
	s.deps.Host.SetStreamHandler(ProviderID, r.server.handle)
	return r
}

// janitor drops expired records every minute and updates their gauge every 5 s.
func (s *Service) janitor(ctx context.Context) {
	for i := 1; jitter.Sleep(ctx, 5*time.Second); i++ {
		if i%12 == 0 && s.deps.MayExpire() {
			s.store.sweep(s.deps.Now())
			s.names.Sweep(s.deps.Now())
		}
		s.m.records.Set(float64(s.store.len()))
		held, _ := s.names.Len()
		s.m.names.Set(float64(held))
	}
}

// Fill returns how many of the expected peers the routing table holds, and how many it
// needs to count as filled: 60 % of what its buckets can hold in a network of the estimated
// size. Until the first lookup of the node's own key has estimated the size, known is false
// and need is have + 1.
func (s *Service) Fill() (have, need int, known bool) { return s.refresher.fill() }

// TableSize returns the number of peers in the routing table.
func (s *Service) TableSize() int { return s.table.Size() }

// Table lists the routing table.
func (s *Service) Table() []routing.Entry { return s.table.Entries() }

// Seeds lists the seeds and their state.
func (s *Service) Seeds() []seeds.Info { return s.bootstrapper.Seeds() }

// SeedManifest returns the state of the signed list of seeds.
func (s *Service) SeedManifest() seeds.ManifestInfo { return s.bootstrapper.Manifest() }

// RememberedPeers returns the number of peers that would be dialed if no seed answered.
func (s *Service) RememberedPeers() int { return s.bootstrapper.Remembered() }
