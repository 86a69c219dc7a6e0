// Package node is the composition root: it makes a node of the packages,
// starts them in order, joins them last-first and answers the local API.
//
// [New] checks the configuration and starts nothing. [Node.Run] starts, each
// stage waiting for the one before:
//
//	lock → denylist → audit → store → amnesia → host → sessions → object server → records → DHT → clock → gossip → resolver → repairs → pressure → capabilities → gateway → ready
//
// and, when its context ends, a service fails for good or Drain is called:
// readiness turns false, every service stops admitting (503 draining, GOAWAY),
// what is in flight finishes, and the services are joined last-first, all under
// one absolute deadline (SPEC §10, docs/contributing/lifecycle.md).
//
// One request, walked through: a browser asks the gateway for an object that
// is not here. The gateway opens it through [Found]; the store says
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
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"allium/node/amnesia"
	"allium/node/capabilities"
	homedir "allium/node/home"
	"allium/node/publish"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"allium/gateway"
	"allium/gateway/api"
	"allium/gateway/audit"
	"allium/gateway/denylist"
	"allium/internal/limits"
	"allium/node/clock"
	"allium/node/config"
	"allium/node/fault"
	"allium/node/p2p"
	"allium/node/readiness"
	"allium/node/records"
	"allium/node/repair"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/gossip"
	"allium/protocols/hints"
	"allium/protocols/inbound"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// Deps is what a node gets from its process.
type Deps struct {
	Log   *slog.Logger   // nil discards
	Hash  *b3.HashQueue  // of the process, which all its nodes share; nil: one of the node's own
	Guard *amnesia.Guard // of a process that is this node alone; nil leaves the process as it is
}

// Node is one node. It runs once.
type Node struct {
	base
	parts
	overlay
	phase
}

// base is what the parts of a node are made with.
type base struct {
	home string
	cfg  config.Config
	log  *slog.Logger
	key  crypto.PrivKey

	registry *prometheus.Registry
	limits   *limits.Registry
	hash     *b3.HashQueue
	inbound  *inbound.Memory // of frames that are not complete
	services *supervise.Group

	faults *fault.Injector  // nil unless it is a testnet
	now    func() time.Time // the clock for what crosses the network with a date
}

// parts are made by New.
type parts struct {
	board        *readiness.Board
	pressure     *readiness.Pressure
	clock        *clock.Watch
	twin         *elsewhere
	amnesia      *amnesia.Watch
	store        *store.Store
	repairs      *repair.Repairs
	publisher    *publish.Publisher
	denylist     *denylist.List
	audit        *audit.Log // nil: none
	capabilities *capabilities.Verifier
	reloaders    *reloaders
}

// overlay is what Run makes before ready, in the order of the stages; it is
// read-only afterwards.
type overlay struct {
	host      host.Host
	sessions  *session.Service
	server    *object.Server
	objects   *object.Client
	records   *records.Store // nil: in RAM
	dht       *dht.Service
	gossip    *gossip.Service
	announces *hints.Service
	resolver  *resolver.Resolver
	gateway   *gateway.Gateway
}

// phase is where a node is between New and the end of Run.
type phase struct {
	socket   string
	unlock   func()        // of the home directory
	started  atomic.Bool   // the overlay is set
	drain    chan struct{} // closed by Drain
	drainOne sync.Once
	draining atomic.Bool
}

// New checks cfg, reads or makes the identity below home, and starts nothing.
func New(home string, cfg config.Config, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Hash == nil {
		deps.Hash = b3.NewHashQueue(runtime.GOMAXPROCS(0))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n := &Node{
		base: base{
			home: home, cfg: cfg, log: deps.Log, registry: registry, limits: limits.NewRegistry(registry), hash: deps.Hash,
			services: supervise.New(supervise.Deps{Log: deps.Log, Metrics: registry}),
		},
		parts: parts{reloaders: newReloaders()},
		phase: phase{drain: make(chan struct{}), unlock: func() {}},
	}
	n.limits.NewUsage(limits.Spec{
		Name: "b3.hashing", Path: "reads, checks, transfers → groups being hashed", Policy: "waits",
	}, int64(n.hash.Cores()), func() int64 { return int64(n.hash.InUse()) })
	n.inbound = inbound.New(n.limits, cfg.Listen.InboundMemory())
	n.amnesia = amnesia.New(cfg, deps.Guard, deps.Log, registry)
	n.twin = newElsewhere(deps.Log, registry)
	n.pressure = readiness.NewPressure(n.limits, registry)
	n.board = readiness.NewBoard(n.gates()...)
	if err := n.newClock(); err != nil {
		return nil, err
	}
	var err error
	if n.socket, err = api.ListenPath(home); err != nil {
		return nil, err
	}
	if n.key, err = homedir.Identity(home, cfg.Node.Amnesia); err != nil {
		return nil, err
	}
	if n.repairs, err = repair.New(cfg.Store.RepairRate, mayRepair(cfg), n.log, registry, n.limits); err != nil {
		return nil, err
	}
	if n.denylist, err = denylist.New(denylistConfig(home, cfg.Gateway), denylist.Deps{Log: n.log, Metrics: registry}); err != nil {
		return nil, err
	}
	n.reloaders.add(Reloader{Name: "denylist", Reload: n.denylist.Reload})
	if n.audit, err = n.newAudit(); err != nil {
		return nil, err
	}
	if n.capabilities, err = capabilities.New(home, n.key, n.log, registry, n.limits); err != nil {
		return nil, err
	}
	n.reloaders.add(Reloader{Name: "capabilities", Reload: n.capabilities.Reload})
	disk := n.injectFaults()
	files, err := shareFiles(fileLimit(), cfg, n.log)
	if err != nil {
		return nil, err
	}
	n.store, err = store.New(storeConfig(home, cfg.Store), store.Deps{Files: files, Hash: n.hash, Log: n.log, Metrics: registry, Limits: n.limits, Damaged: n.repairs.Damaged, Denied: n.denylist.At("store").Object, FS: disk, MayExpire: n.clock.MayExpire})
	if err != nil {
		return nil, err
	}
	n.publisher = publish.New(publish.Deps{Store: n.store, Denied: n.denylist.At("announce").Object, Policy: cfg.DHT.Announce, Log: n.log})
	if n.faults != nil {
		n.faults.WatchDisk(n.store.Collector().Kick)
	}
	return n, nil
}

// injectFaults lets a node of a testnet be told to do wrong. It returns the file
// system of the store, nil for the machine's.
func (n *Node) injectFaults() vfs.FS {
	n.now = time.Now
	if n.cfg.Node.Profile != p2p.Testnet {
		return nil
	}
	noDisk := ""
	if n.cfg.Store.Backend == store.BackendMemory {
		noDisk = fmt.Sprintf("this node's store is in RAM (store.backend = %q)", store.BackendMemory)
	}
	n.faults = fault.New(noDisk, n.log, n.registry)
	n.now = n.faults.Now
	return n.faults.Disk()
}

// Run starts the node, calls ready when it answers everywhere, and returns
// after everything it started has ended: nil when it was told to stop and
// drained in time, otherwise why not.
func (n *Node) Run(ctx context.Context, ready func()) error {
	err := n.start(ctx)
	defer func() { n.unlock() }()
	if err == nil {
		n.started.Store(true)
		n.amnesia.Look()
		ready()
		select {
		case <-ctx.Done():
		case <-n.drain:
		case <-n.services.Failed():
		}
	}
	return errors.Join(err, n.stop(context.WithoutCancel(ctx)), n.services.Err())
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
func (n *Node) ID() api.ID {
	at := n.gateway.Addrs()
	id := api.ID{ID: n.host.ID().String(), Addrs: []string{}, Gateway: at.Gateway, Admin: at.Admin, GatewayLocal: at.Local, Redirect: at.Redirect}
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(n.host))
	if err != nil {
		return id // the id is a host's, so it can be written
	}
	for _, a := range addrs {
		id.Addrs = append(id.Addrs, a.String())
	}
	return id
}

// Readiness is what /readyz tells.
func (n *Node) Readiness() api.Readiness { return n.board.Report() }
