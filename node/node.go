// Package node is the composition root: it makes a node of the packages,
// starts them in order, joins them last-first and answers the local API.
//
// [New] checks the configuration and starts nothing. [Node.Run] starts, each
// stage waiting for the one before:
//
//	denylist → audit → store → amnesia → host → sessions → object server → records → DHT → gossip → resolver → repairs → pressure → capabilities → gateway → ready
//
// and, when its context ends, a service fails for good or Drain is called:
// readiness turns false, every service stops admitting (503 draining, GOAWAY),
// what is in flight finishes, and the services are joined last-first, all under
// one absolute deadline (SPEC §10, docs/LIFECYCLE.md).
//
// One request, walked through: a browser asks the gateway for an object that
// is not here. The gateway opens it through [foundObjects]; the store says
// not_found; the resolver asks who announced it, or the DHT, and the object client
// for the bytes; each group is proved, written to the store and copied to the
// browser while the next one is on its way.
//
// [OpenOffline] is the store alone, for commands when no node runs.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"allium/gateway"
	"allium/gateway/audit"
	"allium/gateway/client"
	"allium/gateway/denylist"
	"allium/node/config"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/admission"
	"allium/protocols/announce"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/gossip"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// Deps is what a node gets from its process.
type Deps struct {
	Log   *slog.Logger // nil discards
	Guard *Guard       // of a process that is this node alone; nil leaves the process as it is
}

// Node is one node. It runs once.
type Node struct {
	home string
	cfg  config.Config
	log  *slog.Logger

	registry *prometheus.Registry
	limits   *admission.Registry
	services *supervise.Group
	board    *Board
	pressure *pressure
	key      crypto.PrivKey
	amnesia  *amnesia
	store    *store.Store
	repairs  *repairs
	denylist *denylist.List
	audit    *audit.Log // nil: none
	faults   *faults    // nil unless it is a testnet
	socket   string

	capabilities *capabilities
	reloaders    *reloaders

	drain    chan struct{} // closed by Drain
	drainOne sync.Once
	draining atomic.Bool

	// Set by Run before ready, in the order of the stages; read-only afterwards.
	host     host.Host
	sessions *session.Service
	server   *object.Server
	objects  *object.Client
	records  ds.Batching // nil: in RAM
	dht      *dht.Service

	gossip    *gossip.Service
	announces *announce.Service

	resolver *resolver.Resolver
	gateway  *gateway.Gateway
	started  atomic.Bool // all of the above are set
}

// New checks cfg, reads or makes the identity below home, and starts nothing.
func New(home string, cfg config.Config, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n := &Node{
		home: home, cfg: cfg, log: deps.Log,
		registry: registry,
		limits:   admission.NewRegistry(registry),
		services: supervise.New(supervise.Deps{Log: deps.Log, Metrics: registry}),
		drain:    make(chan struct{}), reloaders: newReloaders(),
	}
	n.amnesia = newAmnesia(cfg, deps.Guard, deps.Log, registry)
	n.pressure = newPressure(n.limits, registry)
	n.board = NewBoard(n.gates()...)
	var err error
	if n.socket, err = client.SocketPath(home); err != nil {
		return nil, err
	}
	if n.key, err = identity(home, cfg.Node.Amnesia); err != nil {
		return nil, err
	}
	if n.repairs, err = newRepairs(cfg.Store.RepairRate, repairing(cfg), n.log, registry, n.limits); err != nil {
		return nil, err
	}
	if n.denylist, err = denylist.New(denylistConfig(home, cfg.Gateway), denylist.Deps{Log: n.log, Metrics: registry}); err != nil {
		return nil, err
	}
	n.reloaders.add(Reloader{Name: "denylist", Reload: n.denylist.Reload})
	if n.audit, err = n.newAudit(); err != nil {
		return nil, err
	}
	if n.capabilities, err = newCapabilities(home, n.key, n.log, registry, n.limits); err != nil {
		return nil, err
	}
	n.reloaders.add(Reloader{Name: "capabilities", Reload: n.capabilities.Reload})
	n.faults = newFaults(cfg, n.log, registry)
	n.store, err = store.New(storeConfig(home, cfg.Store), store.Deps{Log: n.log, Metrics: registry, Limits: n.limits, Damaged: n.repairs.damaged, Denied: n.denylist.At("store").Object, FS: n.faults.disk()})
	if err != nil {
		return nil, err
	}
	n.faults.watches(n.store)
	return n, nil
}

// Run starts the node, calls ready when it answers everywhere, and returns
// after everything it started has ended: nil when it was told to stop and
// drained in time, otherwise why not.
func (n *Node) Run(ctx context.Context, ready func()) error {
	err := n.start(ctx)
	if err == nil {
		n.started.Store(true)
		n.amnesia.look()
		ready()
		select {
		case <-ctx.Done():
		case <-n.drain:
		case <-n.services.Failed():
		}
	}
	return errors.Join(err, n.stop(context.WithoutCancel(ctx)), n.services.Err())
}

// start runs the stages in order and stops at the first that fails.
func (n *Node) start(ctx context.Context) error {
	for _, stage := range []func(context.Context) error{
		n.startDenylist, n.startAudit, n.startStore, n.startAmnesia, n.startHost, n.startSessions, n.startObjects, n.startRecords, n.startDHT, n.startGossip, n.startResolver, n.startRepairs, n.startPressure, n.startCapabilities, n.startGateway, n.startReadiness,
	} {
		if err := stage(ctx); err != nil {
			return err
		}
		if err := n.services.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startStore(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{Name: "store", Run: n.store.Run, Fatal: true})
}

func (n *Node) startHost(ctx context.Context) error {
	psk, err := swarmKey(n.cfg.Node.SwarmKey)
	if err != nil {
		return err
	}
	builder, err := p2p.New(n.cfg.Listen, p2p.Deps{Key: n.key, PSK: psk, Version: ThisVersion().Version, Log: n.log, Metrics: n.registry, Faults: n.faults.hostLinks()})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "host", Fatal: true, Run: func(ctx context.Context, ready func()) error {
		defer n.faults.close()
		h, err := builder.Build(ctx)
		if err != nil {
			return err
		}
		n.host = h
		ready()
		<-ctx.Done()
		return h.Close()
	}})
}

func (n *Node) startSessions(ctx context.Context) (err error) {
	n.sessions, err = session.New(n.cfg.Session, session.Deps{
		Host: n.host, UserAgent: "allium/" + ThisVersion().Version, Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "sessions", Run: n.sessions.Run, Fatal: true})
}

func (n *Node) startObjects(ctx context.Context) (err error) {
	n.server, err = object.NewServer(n.cfg.Object, object.ServerDeps{
		Host: n.faults.acceptor(n.host), Store: served{n.store, n.denylist.At("peers").Object}, MaxFrame: n.sessions.MaxFrame,
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.objects, err = object.NewClient(n.cfg.Object, object.ClientDeps{Host: n.host, Metrics: n.registry, Limits: n.limits})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "objects", Fatal: true, Run: func(ctx context.Context, ready func()) error {
		err := n.server.Run(ctx, ready)
		return errors.Join(err, n.objects.Close())
	}})
}

// startRecords opens what discovery keeps over a restart: provider records, the
// republish cycle, what is known of seeds. With amnesia it stays in RAM.
func (n *Node) startRecords(ctx context.Context) error {
	if n.cfg.Node.Amnesia {
		return nil
	}
	return n.services.Start(ctx, supervise.Service{Name: "records", Fatal: true, Run: func(ctx context.Context, ready func()) error {
		d, err := openRecords(filepath.Join(n.home, recordsDir))
		if err != nil {
			return err
		}
		n.records = d
		ready()
		<-ctx.Done()
		return d.Close()
	}})
}

func (n *Node) startDHT(ctx context.Context) (err error) {
	n.dht, err = dht.New(n.cfg.DHT, dht.Deps{
		Host: n.host, Key: n.key, Roots: n.announced(context.WithoutCancel(ctx)), Has: n.has, Denied: n.deniedKey, Datastore: n.records, SeedManifest: n.seedManifest(), Now: n.faults.now,
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "dht", Run: n.dht.Run})
}

func (n *Node) startResolver(ctx context.Context) (err error) {
	n.resolver, err = resolver.New(n.cfg.Resolver, resolver.Deps{
		Local: fetched{n.store}, Providers: finder{n.dht}, Hints: n.hints, Objects: n.objects, Dialer: addressBook{n.host}, Self: n.host.ID(), Denied: n.denylist.At("resolver").Object,
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "resolver", Run: n.resolver.Run})
}

func (n *Node) startPressure(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{Name: "pressure", Run: n.pressure.Run})
}

func (n *Node) startGateway(ctx context.Context) (err error) {
	objects := foundObjects{local: localObjects{n.store}, resolver: n.resolver, denied: n.denylist.At("objects").Object, noContent: n.cfg.Node.Profile == p2p.Seed}
	version := ThisVersion()
	version.Amnesia = n.amnesia.mode(n.store.LockError())
	api := newAPI(n, objects)
	n.gateway, err = gateway.New(n.cfg.Gateway, n.cfg.Admin, gateway.Deps{
		Objects: objects, Node: api, Uploads: uploads{api: &api.storeAPI, shut: n.pressure.writes}, Ready: n.board.Report, Audit: n.audited(), Denylist: n.denylist.At("gateway"), Version: version, Socket: n.socket, ACMEDir: n.acmeDir(),
		Capabilities: n.capabilities,
		Log:          n.log, Metrics: n.registry, Gatherer: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.reloadCertificate()
	return n.services.Start(ctx, supervise.Service{Name: "gateway", Run: n.gateway.Run})
}

// stop drains and joins everything that was started. ctx is not cancelled; the
// drain deadline bounds what follows.
func (n *Node) stop(ctx context.Context) error {
	n.draining.Store(true)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Node.DrainDeadline)
	defer cancel()
	if n.started.Load() {
		n.log.Info("draining", "deadline", n.cfg.Node.DrainDeadline)
		var admitting sync.WaitGroup
		admitting.Go(func() {
			if err := n.gateway.Drain(ctx); err != nil {
				n.log.Warn("requests of the gateway did not finish", "err", err)
			}
		})
		admitting.Go(func() { n.sessions.Drain(ctx, n.cfg.Node.DrainDeadline) })
		admitting.Go(func() { n.server.Drain(ctx) })
		admitting.Wait()
	}
	abandoned := n.services.Stop(ctx)
	if len(abandoned) == 0 {
		n.log.Info("stopped", "after", time.Since(begun).Round(time.Millisecond))
		return nil
	}
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	return status.Errorf(status.Internal, "%v did not stop within the drain deadline of %s and a second; their stacks are above", abandoned, n.cfg.Node.DrainDeadline)
}

// Drain begins the orderly shutdown.
func (n *Node) Drain() { n.drainOne.Do(func() { close(n.drain) }) }

// ID is who the node is and where it listens, once Run has called ready.
func (n *Node) ID() client.ID {
	at := n.gateway.Addrs()
	id := client.ID{ID: n.host.ID().String(), Addrs: []string{}, Gateway: at.Gateway, Admin: at.Admin, GatewayLocal: at.Local, Redirect: at.Redirect}
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(n.host))
	if err != nil {
		return id // the id is a host's, so it can be written
	}
	for _, a := range addrs {
		id.Addrs = append(id.Addrs, a.String())
	}
	return id
}

// has says whether the store holds an object, whole, that may be served.
func (n *Node) has(ctx context.Context, root b3.Root) bool {
	if n.denylist.At("announce").Object(root) != nil {
		return false
	}
	_, err := n.store.Stat(ctx, root)
	return err == nil
}

// gates are the conditions of readiness, in the order they open.
func (n *Node) gates() []Gate {
	gates := []Gate{
		{Name: "started", Check: func() Reading {
			return yesNo(n.started.Load(), "wait: the node is starting; its log says what it is waiting for")
		}},
		{Name: "accepting", Check: func() Reading {
			return yesNo(!n.draining.Load(), "the node is stopping; use another, or wait until it is back")
		}},
		{Name: "store_writes", Scope: GatesWrites, Check: func() Reading {
			err := n.store.Stats().WriteErr
			return yesNo(err == nil, fmt.Sprintf("nothing more is written since: %v; repair the disk and restart the node", err))
		}},
		{Name: "store_space", Scope: GatesWrites, Check: n.spaceGate},
		{Name: "audit", Scope: GatesWrites, Check: n.auditGate},
		{Name: "bootstrap", Check: n.bootstrapGate},
		{Name: "routing_table", Check: n.tableGate},
		{Name: "session_workers", Check: n.workersGate},
		{Name: "pressure_writes", Scope: GatesWrites, Check: n.pressure.writes},
		{Name: "pressure_reads", Check: n.pressure.reads},
	}
	if n.cfg.Gateway.TLS.Enabled() {
		gates = append(gates, Gate{Name: "tls_certificate", Check: n.certificateGate})
	}
	if n.cfg.Store.Backend == store.BackendS3 {
		gates = append(gates, Gate{Name: "store_bucket", Check: n.bucketGate})
	}
	return gates
}
