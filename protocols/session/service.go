package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/env"
	"allium/internal/inbound"
	"allium/internal/ipgroup"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/protocols/oap"
)

// ProtocolID is the libp2p protocol of a session stream (OAP1 §5).
const ProtocolID = protocol.ID("/oap/1/session")

// Host is the part of a libp2p host that sessions use.
type Host interface {
	NewStream(ctx context.Context, p peer.ID, pids ...protocol.ID) (network.Stream, error)
	SetStreamHandler(pid protocol.ID, handler network.StreamHandler)
	RemoveStreamHandler(pid protocol.ID)
}

// Deps are the dependencies of a [Service]. Host is required.
type Deps struct {
	env.Env

	Host      Host
	UserAgent string          // name/version, shown to peers
	Features  []string        // that HELLO announces besides those of the sessions themselves
	Inbound   *inbound.Memory // limits the bytes of incomplete frames; nil: no limit
	Codec     *oap.Codec      // of compressed frames, shared by the process; nil: the service makes its own
	// Transports returns the names of the transports that the host listens on, for HELLO. Nil means none.
	Transports func() []string
	// Capabilities verifies what peers show; nil: requests with a capability are refused.
	Capabilities Capabilities
	// Region is the region of this node that HELLO tells to peers; empty: it tells none.
	Region string
}

// announced has the statements of HELLO that concern this node.
type announced struct {
	agent     string
	features  []string
	listening func() []string
}

// Service runs the sessions of a node. Its methods are safe for concurrent use.
type Service struct {
	cfg          atomic.Pointer[Config]
	host         Host
	own          announced
	inbound      *inbound.Memory
	codec        *oap.Codec
	now          func() time.Time
	regions      regions
	log          *slog.Logger
	m            *metrics
	handlers     map[uint16]Handler
	asks         map[uint16]Ask
	capabilities Capabilities

	ingress    *limits.FairQueue[peer.ID, *task]
	workers    *pool
	egress     *limits.Budget
	places     *limits.FairGate[ipgroup.Group]
	handshakes *limits.FairGate[ipgroup.Group]  // sessions of peers before their HELLO
	asking     *limits.FairGate[ipgroup.Group]  // requests of all peers in flight
	answering  *limits.Gate                     // requests of one session
	frames     *limits.Budget                   // frames of one peer
	bytes      *limits.Budget                   // bytes of one peer
	rates      *limits.KeyedRate[peer.ID]       // outlives the sessions, so a new session gets no new burst
	groupRates *limits.KeyedRate[ipgroup.Group] // a new identity of the group gets no new burst

	maxFramesMu sync.Mutex // guards writes to lowered; lock: leaf
	// lowered has the max_frame of each connection where it is below oap.MaxFrame, by
	// the connection's id. It outlives the sessions.
	maxFrames *lru.Cache[string, uint32]

	exchanges sync.Pool // unused *exchange

	// inflight counts what a drain waits for: requests of peers whose answer is not
	// written, and calls of this node. Drain closes it.
	inflight latch.Latch
	wg       sync.WaitGroup // links and openings

	mu      sync.Mutex // lock: metadata, before link.mu
	running context.Context
	peers   map[peer.ID]*peerEntry
}

// ratedPeers is the most peers with a rate bucket, and the most connections with a
// recorded max_frame. Beyond it, the least recently used is removed.
const ratedPeers = 16384

const (
	// groupPart limits the share of one IP group in the sessions, the handshakes and
	// the requests in flight. The group gets one more only while it has fewer than
	// 1/groupPart of the free ones.
	groupPart = 4

	// groupRates is the rate of one IP group as a multiple of one peer's rate.
	groupRates = 8
)

// New returns a Service. It starts nothing; see Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil {
		return nil, errors.New("a session service needs a host")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register the session metrics: %w", err)
	}
	lowered, err := lru.New[string, uint32](ratedPeers)
	if err != nil {
		return nil, fmt.Errorf("make a cache of the sessions: %w", err)
	}
	regions, err := newRegions(deps.Region)
	if err != nil {
		return nil, fmt.Errorf("make a cache of the sessions: %w", err)
	}
	deps.Env.SetDefaults()
	if deps.Transports == nil {
		deps.Transports = func() []string { return nil }
	}
	if deps.Codec == nil {
		deps.Codec = oap.NewCodec(runtime.GOMAXPROCS(0))
	}
	s := &Service{
		inbound: deps.Inbound, codec: deps.Codec, now: deps.Now, regions: regions,
		host: deps.Host, own: announced{deps.UserAgent, deps.Features, deps.Transports}, log: deps.Log, m: m,
		maxFrames: lowered,
		handlers:  map[uint16]Handler{}, asks: map[uint16]Ask{}, capabilities: deps.Capabilities,
		peers: map[peer.ID]*peerEntry{},
		ingress: limits.NewFairQueue[peer.ID, *task](deps.Limits, limits.Spec{
			Name: "session.ingress", Path: "stream reader → dispatcher",
			Policy: "busy to the newest request of the peer with the most waiting; to the new one if its peer has " +
				"as many",
		}, int(cfg.Ingress), int(cfg.Workers)),
		egress: deps.Limits.NewBudget(limits.Spec{
			Name: "session.egress", Path: "calls and answers → the streams' writers",
			Policy: "the oldest frame of the peer that holds the most bytes becomes busy, if that peer holds more; " +
				"else calls wait up to permit_wait, then busy, and answers become busy",
		}, int64(cfg.EgressBytes)),
		places: limits.NewFairGate[ipgroup.Group](deps.Limits, limits.Spec{
			Name: "session.sessions", Path: "peers and callers → sessions",
			Policy: "stream reset, call busy; one IP group opens at most a quarter of the free sessions",
		}, cfg.Sessions, groupPart),
		rates: limits.NewKeyedRate[peer.ID](deps.Limits, limits.Spec{
			Name: "session.control_rate", Path: "one peer → dispatcher",
			Policy: "reject: busy; for frames without an answer, the session is not read until the rate allows",
			Each:   "peer",
		}, float64(cfg.ControlRate), int(cfg.ControlRate), ratedPeers),
	}
	s.handshakes = limits.NewFairGate[ipgroup.Group](deps.Limits, limits.Spec{
		Name: "session.handshakes", Path: "peers → sessions before their HELLO",
		Policy: "stream reset; one IP group gets at most a quarter of the free places",
	}, cfg.Handshakes, groupPart)
	s.asking = limits.NewFairGate[ipgroup.Group](deps.Limits, limits.Spec{
		Name: "session.asking", Path: "stream reader → dispatcher (requests in flight of all peers)",
		Policy: "busy to an IP group that has a quarter of the free places; else see session.ingress",
	}, cfg.Ingress+cfg.Workers, groupPart)
	s.groupRates = limits.NewKeyedRate[ipgroup.Group](deps.Limits, limits.Spec{
		Name: "session.group_rate", Path: "one IP group → dispatcher",
		Policy: "reject: busy; for frames without an answer, the session is not read until the rate allows",
		Each:   "IP group",
	}, groupRates*float64(cfg.ControlRate), groupRates*int(cfg.ControlRate), ratedPeers)
	s.answering = deps.Limits.NewGate(limits.Spec{
		Name: "session.max_inflight", Path: "one session → dispatcher", Policy: "reject: busy", Each: "session",
		Fullest: s.fullest((*peerEntry).mostInflight),
	}, cfg.MaxInflight, 0)
	s.frames = deps.Limits.NewBudget(limits.Spec{
		Name: "session.egress_frames", Path: "calls and answers → the writers of one peer (frames)",
		Policy: "calls wait up to permit_wait, then busy, or the oldest call gets busy (drop_oldest); readers wait",
		Each:   "peer", Fullest: s.fullest(func(e *peerEntry) int64 { return e.permits.frames.Used() }),
	}, cfg.EgressFrames)
	s.bytes = deps.Limits.NewBudget(limits.Spec{
		Name: "session.peer_egress_bytes", Path: "calls and answers → the writers of one peer (bytes)",
		Policy: "calls wait up to permit_wait, then busy, and answers become busy; the oldest first (drop_oldest)",
		Each:   "peer", Fullest: s.fullest(func(e *peerEntry) int64 { return e.permits.bytes.Used() }),
	}, int64(cfg.PeerEgressBytes))
	s.cfg.Store(&cfg)
	s.workers = &pool{size: int(cfg.Workers), died: s.workerDied, work: func(ctx context.Context) {
		deps.Tasks.Run(ctx, s.work)
	}}
	deps.Tasks.List(tasks.Info{
		Name: "sessions.workers", Kind: tasks.Worker, Started: true, Owner: "protocols/session",
		Count:   int(cfg.Workers),
		Restart: "its request is answered with internal, and it is replaced after 100 ms to 2 s",
		Doc:     "answer the requests of peers",
	})
	return s, nil
}

// Reconfigure applies the hot fields of a valid configuration at once. Sessions that are open keep their timeouts, and
// those beyond a bound that shrank stay.
func (s *Service) Reconfigure(cfg Config) {
	s.cfg.Store(&cfg)
	s.egress.Resize(int64(cfg.EgressBytes))
	s.places.Resize(cfg.Sessions)
	s.rates.Set(float64(cfg.ControlRate), int(cfg.ControlRate))
	s.groupRates.Set(groupRates*float64(cfg.ControlRate), groupRates*int(cfg.ControlRate))
}

// Handle registers the handler of an application protocol. Call it before Run. It
// panics for the control protocol, for a nil handler, and for a second handler of
// one protocol.
func (s *Service) Handle(proto uint16, h Handler) {
	if proto == oap.ProtoControl || s.handlers[proto] != nil || h == nil {
		panic(fmt.Sprintf("bad handler of app_proto_id %d", proto))
	}
	s.handlers[proto] = h
}

// Run accepts and opens sessions until ctx ends. It returns nil after every session
// and every goroutine has ended. It calls ready once it accepts sessions.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.mu.Lock()
	again := s.running != nil
	if !again {
		s.running = ctx
	}
	s.mu.Unlock()
	if again {
		return errors.New("the session service runs already")
	}
	s.inflight.Open()

	// The workers outlive the sessions, because each session waits for its requests.
	workCtx, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	s.workers.start(workCtx)
	s.host.SetStreamHandler(ProtocolID, s.accept)
	ready()

	<-ctx.Done()
	s.host.RemoveStreamHandler(ProtocolID)
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	for _, l := range s.links() {
		l.fail(errStopped)
	}
	s.wg.Wait()
	stopWorkers()
	s.workers.wait()
	return nil
}

// accept runs a session that a peer opened, on the host's goroutine.
func (s *Service) accept(stream network.Stream) {
	group := ipgroup.Of(stream.Conn().RemoteMultiaddr())
	if s.handshakes.Enter(group) != nil {
		_ = stream.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	greeted := sync.OnceFunc(func() { s.handshakes.Leave(group) })
	defer greeted()
	if s.places.Enter(group) != nil {
		_ = stream.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer s.places.Leave(group)
	l := s.attach(stream, false)
	if l == nil {
		_ = stream.ResetWithError(network.StreamShutdown)
		return
	}
	defer s.detach(l)
	l.run(func() error {
		if err := l.answerHello(); err != nil {
			return err
		}
		greeted() // the deferred call then does nothing
		return l.readRequests()
	})
}

// Drain sends GOAWAY with the time d to every peer and answers new requests and calls
// with draining. It waits until nothing is in flight or ctx ends, and returns how
// many requests are unfinished. The end of Run's ctx cuts those off.
func (s *Service) Drain(ctx context.Context, d time.Duration) (unfinished int) {
	s.inflight.Close()
	for _, l := range s.links() {
		l.goAway(d)
	}
	return s.inflight.Drain(ctx)
}
