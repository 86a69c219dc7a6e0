// Package node builds a node from the other packages and runs it: it creates
// their services, joins them with adapters, starts them in order and stops them
// in the reverse order. It is the only package that joins the store, the resolver
// and the gateway.
//
// [New] checks the configuration and starts nothing. [Node.Run] starts the stages
// of stages.go, each after the one before is ready:
//
//	lock → events → denylist → access → audit → store → amnesia → host → reach → sessions → object server
//	→ records → DHT → clock → gossip → members → lan → resolver → repairs → durability → pressure
//	→ capabilities → gateway → readiness → reloads
//
// Run stops the node when its context ends, when [Node.Drain] is called, or when a
// service fails for good. Readiness turns false, and every service stops admitting
// requests (503 draining, GOAWAY). Requests in flight finish, and the services end,
// last first. One absolute deadline bounds all of it (SPEC §10,
// docs/contributing/lifecycle.md).
//
// One request, walked through: a browser asks the gateway for an object that is
// not in the store. The gateway calls Open of objects.Found, which calls Open of
// the store and gets not_found. It then calls Open of the resolver, which looks
// for providers among the hints of gossip and in the DHT (dhtFinder), and requests
// the bytes from them with the object client. Each group of 64 KiB is verified and
// written to the store (fetchStore, ingest), and copied to the browser while the
// next one is on its way.
//
// [OpenOffline] opens the store alone, for commands that run without a node.
// [Check] tests what a node would read when it starts.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	homedir "allium/node/home"

	"allium/gateway/api"
	"allium/gateway/policy/access"
	"allium/gateway/policy/capabilities"
	"allium/gateway/policy/denylist"
	"allium/internal/cores"
	"allium/internal/env"
	"allium/internal/inbound"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/node/config"
	"allium/node/fault"
	"allium/node/files/publish"
	"allium/node/local/events"
	"allium/node/p2p"
	"allium/node/p2p/reach"
	"allium/node/readiness"
	"allium/node/readiness/amnesia"
	"allium/node/readiness/descriptors"
	"allium/node/reload"
	"allium/node/supervise"
	"allium/protocols/status"
	"allium/resolver/names/zones"
	"allium/store"
	"allium/store/cluster/repair"
)

// Deps holds the dependencies of a node.
type Deps struct {
	Log     *slog.Logger   // nil discards
	Process *Process       // what all nodes of the process share; nil: the node makes its own
	Guard   *amnesia.Guard // protects a process that runs this node alone; nil: the node does not touch the process
	// Configuration reads the configuration again, for reloads; nil: a reload reads only the files beside it.
	Configuration func() (config.Loaded, error)
	// Loaded is the configuration with the source of each value, for those who ask; nil: all are defaults.
	Loaded *config.Loaded
	// Level is the level of Log, which a reload sets; nil: it stays.
	Level *slog.LevelVar
	// Embedded is for a command that needs a node for as long as it runs. The node opens no socket and
	// keeps everything but its store in RAM, as with node.amnesia. The command uses Node.API, and has
	// locked the directory above the store's. The key is there too: a command that continues with the store
	// is the same peer to the nodes that know what they have sent to it.
	Embedded bool
}

// Node is one node. It runs once. New makes what is before the overlay. Run makes the overlay and what follows it, in
// the order of the stages: none of that is complete until lifecycle.started is true, and it does not change afterwards.
type Node struct {
	base
	resources
	checks
	content
	policies

	overlay
	discovery
	serving
	lifecycle
}

// embeddedKey is the file of the key of an embedded node, beside the directory of its store.
const embeddedKey = "peer.key"

// New checks cfg, reads the identity below home or creates one, and starts
// nothing.
func New(home string, cfg config.Config, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Embedded {
		cfg.Node.Amnesia = true
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Process == nil {
		cores := runtime.GOMAXPROCS(0)
		if cfg.Node.LowPower {
			cores = (cores + 1) / 2
		}
		deps.Process = NewProcess(cores)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	list := tasks.NewRegistry(registry)
	n := &Node{
		base: base{
			home: home, cfg: cfg, log: deps.Log, logLevel: deps.Level, embedded: deps.Embedded,
			services: supervise.New(supervise.Deps{Env: env.Env{Log: deps.Log, Metrics: registry, Tasks: list}}),
		},
		resources: resources{
			registry: registry, limits: limits.NewRegistry(registry), tasks: list, process: deps.Process,
		},
		lifecycle: lifecycle{drain: make(chan struct{}), unlock: func() {}},
	}
	n.limits.NewUsage(limits.Spec{
		Name: "cpu.cores", Path: "hashing, compression, erasure codes, signatures of records → cores",
		Policy: "waits, what somebody waits for first",
	}, int64(n.process.cores.Cores()), func() int64 { return int64(n.process.cores.InUse()) })
	n.limits.NewUsage(limits.Spec{
		Name: cores.LimitWaiting, Path: "work that waits for a core", Policy: "reject: busy",
	}, cores.MaxWaiting, func() int64 { return int64(n.process.cores.Waiting()) })
	n.process.cores.Register(registry)
	n.limits.NewUsage(limits.Spec{
		Name: "oap.inflating", Path: "compressed frames of peers → payloads being decompressed", Policy: "waits",
	}, int64(n.process.codec.Calls()), func() int64 { return int64(n.process.codec.InUse()) })
	n.inbound = inbound.New(n.limits, cfg.Listen.InboundMemory())
	n.amnesia = amnesia.New(cfg, deps.Guard, deps.Log, registry)
	n.duplicates = newDuplicates(deps.Log, registry)
	n.pressure = readiness.NewPressure(n.limits, registry)
	n.events = events.New(n.limits, deps.Log)
	n.board = readiness.NewBoard(n.gates()...)
	if err := n.newClock(); err != nil {
		return nil, err
	}
	var err error
	if !deps.Embedded {
		if n.socket, err = api.ListenPath(home); err != nil {
			return nil, err
		}
	}
	switch {
	case !deps.Embedded:
		n.key, err = homedir.Identity(home, cfg.Node.Amnesia)
	case cfg.Store.Backend == store.BackendEmbedded:
		n.key, err = p2p.LoadOrCreateKey(filepath.Join(filepath.Dir(cfg.Store.Dir), embeddedKey))
	default:
		n.key, _, err = crypto.GenerateEd25519Key(nil)
	}
	if err != nil {
		return nil, err
	}
	if n.tracer, err = newTracer(n); err != nil {
		return nil, err
	}
	if n.repairs, err = repair.New(cfg.Store.RepairRate, mayRepair(cfg), n.env()); err != nil {
		return nil, err
	}
	n.denylist, err = denylist.New(denylistConfig(home, cfg.Gateway), denylist.Deps{Env: n.env()})
	if err != nil {
		return nil, err
	}
	n.rates = newRates(n.limits, n.cfg.Node)
	n.reloads = newReloads(n, deps)
	n.reloads.Add(reload.File{Name: "denylist", Reload: n.denylist.Reload})
	n.access, err = access.New(accessConfig(home, cfg.Listen),
		access.Deps{Env: n.env()})
	if err != nil {
		return nil, err
	}
	n.reloads.Add(reload.File{Name: "access", Reload: n.access.Reload})
	if n.audit, err = n.newAudit(); err != nil {
		return nil, err
	}
	if n.capabilities, err = capabilities.New(home, n.key, n.log, registry, n.limits); err != nil {
		return nil, err
	}
	n.reloads.Add(reload.File{Name: "capabilities", Reload: n.capabilities.Reload})
	z, err := zones.Open(home, cfg.Names, cfg.Node.Amnesia)
	if err != nil {
		return nil, err
	}
	if n.zones, err = z.Watch(n.env()); err != nil {
		return nil, err
	}
	n.reloads.Add(reload.File{Name: "names", Reload: n.zones.Reload})
	disk := n.newFaults()
	files, err := descriptors.Share(descriptors.Limit(), cfg, n.log)
	if err != nil {
		return nil, err
	}
	n.store, err = store.New(storeConfig(home, cfg), store.Deps{
		Env: n.env(), Files: files, FS: disk, Hash: n.process.hash,
		Damaged: n.repairs.Damaged, Filter: n.denylist.At("store"), MayExpire: n.clock.MayExpire,
	})
	if err != nil {
		return nil, err
	}
	n.publisher = publish.New(publish.Deps{
		Env: n.env(), Store: n.store, Filter: n.denylist.At("announce"), Policy: cfg.DHT.Announce,
		Coded: n.coded, Held: n.hasCoded,
	})
	if n.faults != nil {
		n.faults.WatchDisk(n.store.Collector().Wake)
	}
	return n, nil
}

// newFaults creates the fault injector of a node that is part of a testnet, and
// sets the node's clock. It returns the file system for the store; nil means the
// machine's own.
func (n *Node) newFaults() vfs.FS {
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

// Run starts the node, calls ready once every service is ready, and returns after
// every service has ended. It returns nil if it was told to stop and the services
// ended before the drain deadline, otherwise the reason.
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

// stop drains and joins every service that was started, within the drain
// deadline. ctx must not be cancelled.
func (n *Node) stop(ctx context.Context) error {
	n.reloads.Drain() // before gates shut
	n.draining.Store(true)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Node.DrainDeadline)
	defer cancel()
	n.events.Stop() // its readers end before the gateway waits for their requests
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
	return status.Errorf(status.Internal,
		"%v did not stop within the drain deadline of %s and one second more; their stacks are above",
		abandoned, n.cfg.Node.DrainDeadline)
}

// Drain begins the orderly shutdown and returns at once. Further calls do nothing.
func (n *Node) Drain() { n.drainOnce.Do(func() { close(n.drain) }) }

// ID returns the node's identity and the addresses at which it listens or is announced. It may be
// called once Run has called ready.
func (n *Node) ID() api.ID {
	at := n.gateway.Addrs()
	id := api.ID{
		Network: n.network.Text(),
		ID:      n.host.ID().String(), Addrs: []string{},
		Gateway: at.Gateway, Admin: at.Admin, GatewayLocal: at.Local, Redirect: at.Redirect,
		Origins: n.gateway.Origins(), Sites: n.gateway.Sites(),
	}
	info := &peer.AddrInfo{ID: n.host.ID(), Addrs: reach.Addrs(n.host)}
	if len(info.Addrs) == 0 { // nobody can dial it, so there is no address of the id alone
		info = &peer.AddrInfo{}
	}
	addrs, err := peer.AddrInfoToP2pAddrs(info)
	if err != nil {
		return id // cannot happen: a host's id is always valid
	}
	for _, a := range addrs {
		id.Addrs = append(id.Addrs, a.String())
	}
	return id
}

// API returns the API of the node. It may be called once Run has called ready, and used until Run
// returns.
func (n *Node) API() api.Node { return n.api }

// env returns what each service of the node gets.
func (n *Node) env() env.Env {
	return env.Env{
		Log: n.log, Metrics: n.registry, Limits: n.limits, Tasks: n.tasks, Cores: n.process.cores, Now: n.now,
		LowPower: n.cfg.Node.LowPower, Tracer: n.tracer,
	}
}
