package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway"
	"allium/gateway/policy/access"
	"allium/gateway/policy/audit"
	"allium/gateway/policy/capabilities"
	"allium/gateway/policy/denylist"
	"allium/internal/cores"
	"allium/internal/inbound"
	"allium/internal/limits"
	"allium/internal/ram"
	"allium/internal/tasks"
	"allium/internal/tracing"
	"allium/node/config"
	"allium/node/edge"
	"allium/node/fault"
	"allium/node/files/publish"
	"allium/node/local"
	"allium/node/local/events"
	"allium/node/local/opener"
	"allium/node/local/sent"
	"allium/node/p2p/reach"
	"allium/node/readiness"
	"allium/node/readiness/amnesia"
	"allium/node/readiness/clock"
	"allium/node/reload"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/dht/records"
	"allium/protocols/gossip"
	"allium/protocols/hints"
	"allium/protocols/links"
	"allium/protocols/oap"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/protocols/ticket"
	"allium/resolver"
	"allium/resolver/names/own"
	"allium/resolver/names/updates"
	"allium/resolver/names/zones"
	"allium/resolver/trace"
	"allium/store"
	"allium/store/cluster"
	"allium/store/cluster/members"
	"allium/store/cluster/repair"
)

// base holds the configuration, the identity and the services that the parts of a node are made with.
type base struct {
	home     string
	cfg      config.Config // at the start: for keys that are not hot
	log      *slog.Logger
	logLevel *slog.LevelVar // nil: it is fixed
	key      crypto.PrivKey
	services *supervise.Group
	events   *events.Events
	embedded bool             // see Deps.Embedded
	faults   *fault.Injector  // nil unless the node is part of a testnet
	now      func() time.Time // the clock for dates that other nodes read
}

// Process holds the cores, the hash queue and the codec that all nodes of a process share. Their bounds hold for these
// nodes together.
type Process struct {
	cores *cores.Pool
	hash  *b3.HashQueue // for the groups of objects
	codec *oap.Codec    // for compressed frames
}

// NewProcess returns what the nodes of a process share that uses so many cores.
func NewProcess(n int) *Process {
	pool := cores.New(n)
	return &Process{cores: pool, hash: b3.NewHashQueueOn(pool), codec: oap.NewCodecOn(pool)}
}

// Memory returns the bytes of memory that the parts of a node with this configuration may take.
func Memory(cfg config.Config) ram.Shares {
	index, hot := cfg.Store.Caches()
	parts := ram.Shares{Peers: cfg.Listen.Memory(), Index: index, Hot: hot}
	if cfg.Store.Backend == store.BackendMemory {
		parts.Objects = int64(cfg.Store.MemoryBytes)
	}
	return parts
}

// resources holds the shared memory, queues and rates of a node's parts, and the registries that count them.
type resources struct {
	registry *prometheus.Registry
	limits   *limits.Registry
	tasks    *tasks.Registry
	process  *Process
	inbound  *inbound.Memory // for frames that have not arrived whole
	rates    rates
	tracer   *tracing.Tracer // nil without trace.endpoint
}

// checks holds the parts that decide whether the node is ready, and whether it is in danger.
type checks struct {
	board      *readiness.Board
	pressure   *readiness.Pressure
	clock      *clock.Watch
	duplicates *duplicates
	amnesia    *amnesia.Watch
}

// content holds the node's store, the parts that repair and announce its objects, and the log of what peers got.
type content struct {
	store     *store.Store
	repairs   *repair.Repairs
	publisher *publish.Publisher
	sent      sent.Log // what peers have got, for FollowSent
}

// policies holds the rules that an operator sets. They are read again when a file changes.
type policies struct {
	denylist     *denylist.List
	access       *access.List
	audit        *audit.Log // nil: audit.enabled is false
	capabilities *capabilities.Verifier
	zones        *zones.Watcher
	reloads      *reload.Service // the configuration, and these
}

// overlay holds the parts that communicate with peers.
type overlay struct {
	network  ticket.Network // the private network
	host     host.Host
	reach    *reach.Service
	sessions *session.Service
	links    *links.Server // of peers on the gateway; nil: none
	server   *object.Server
	objects  *object.Client
	gossip   *gossip.Service
}

// discovery holds the parts that find content and resolve names.
type discovery struct {
	records  *records.Store // nil with amnesia: the records are in RAM
	dht      *dht.Service
	hints    *hints.Service
	updates  *updates.Updates
	trace    *trace.Ring // of the lookups
	resolver *resolver.Resolver
	names    *own.Service
}

// serving holds the parts that serve the node's cluster and its clients.
type serving struct {
	members *members.Service
	copies  *cluster.Keeper // nil: this node joins no cluster
	packs   edge.Packs      // of map tiles
	fills   edge.Fills
	gateway *gateway.Gateway
	example *opener.Example // what the first page of a gateway offers
	api     *local.Node
}

// lifecycle is the state of a node between New and the end of Run.
type lifecycle struct {
	socket    string        // path of the local API; empty: none
	unlock    func()        // unlocks the home directory
	started   atomic.Bool   // every stage has started
	drain     chan struct{} // closed by Drain
	drainOnce sync.Once
	draining  atomic.Bool
}

// newTracer returns what sends spans to the collector of trace.endpoint, or nil without one.
func newTracer(n *Node) (*tracing.Tracer, error) {
	if n.cfg.Trace.Endpoint == "" || n.embedded {
		return nil, nil
	}
	id, err := peer.IDFromPrivateKey(n.key)
	if err != nil {
		return nil, err
	}
	t := tracing.New(tracing.Config{
		Endpoint: n.cfg.Trace.Endpoint, Ratio: n.cfg.Trace.Ratio, Node: id.String(), Version: ThisVersion().Version,
	}, n.log, n.registry)
	_, most := t.Queued()
	n.limits.NewUsage(limits.Spec{
		Name: "trace.spans", Path: "spans that have ended → collector of trace.endpoint", Policy: "drop: the new one",
	}, int64(most), func() int64 { now, _ := t.Queued(); return int64(now) })
	return t, nil
}

// startTracer starts to send spans, before the services that make them.
func startTracer(ctx context.Context, n *Node) error {
	service := supervise.Service{
		Name: "tracer", Owner: "internal/tracing", Doc: "sends spans to the collector", When: "`trace.endpoint`",
		Run: n.tracer.Run,
	}
	if n.tracer == nil {
		n.services.Declare(service)
		return nil
	}
	return n.services.Start(ctx, service)
}
