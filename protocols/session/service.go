package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/inbound"
	"allium/protocols/oap"
)

// ProtocolID is the libp2p protocol of a session stream (OAP1 §5).
const ProtocolID = protocol.ID("/oap/1/session")

// Host is what a session needs of a libp2p host.
type Host interface {
	NewStream(ctx context.Context, p peer.ID, pids ...protocol.ID) (network.Stream, error)
	SetStreamHandler(pid protocol.ID, handler network.StreamHandler)
	RemoveStreamHandler(pid protocol.ID)
}

// Deps is what a Service needs of its node.
type Deps struct {
	Host      Host
	UserAgent string // name/version, shown to peers
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Limits    *limits.Registry
	Inbound   *inbound.Memory // of frames that are not complete; nil: not bounded
	// Transports returns what the host listens on, as HELLO tells it; nil: nothing.
	Transports func() []string
	// Now is the clock that HELLO tells peers; nil: time.Now.
	Now func() time.Time
}

// Service runs the sessions of a node. Its methods are safe for concurrent use.
type Service struct {
	cfg       Config
	host      Host
	userAgent string
	inbound   *inbound.Memory
	listening func() []string
	now       func() time.Time
	log       *slog.Logger
	m         *metrics
	handlers  map[uint16]Handler

	ingress    *limits.Lanes[peer.ID, *task]
	workers    *pool
	egress     *limits.Budget
	places     *limits.Portions[ipgroup.Group]
	handshakes *limits.Portions[ipgroup.Group] // of peers: HELLOs under way
	asking     *limits.Portions[ipgroup.Group] // requests of all peers in flight
	answering  *limits.GateFamily              // requests of one session
	frames     *limits.BudgetFamily            // of one peer
	bytes      *limits.BudgetFamily            // of one peer
	rateFamily *limits.Family
	rates      *lru.Cache[peer.ID, *limits.Rate] // outlives the sessions, so that a new one brings no new burst
	groupRate  *limits.Family
	groupRates *lru.Cache[ipgroup.Group, *limits.Rate] // so that a new identity brings none

	agreeing sync.Mutex                 // for what changes lowered
	lowered  *lru.Cache[string, uint32] // max_frame by id of the connection, where it is below oap.MaxFrame; outlives the sessions

	exchanges sync.Pool // *exchange: of calls that were answered, for the next ones

	inflight inflight
	draining atomic.Bool
	wg       sync.WaitGroup // links and openings

	mu      sync.Mutex // before link.mu; nothing is called while it is held
	running context.Context
	peers   map[peer.ID]*peerEntry
}

// ratedPeers bounds the buckets kept for peers, and the connections whose
// max_frame is remembered, most recent first.
const ratedPeers = 16384

const (
	// groupPart bounds what one IP group has of the sessions, the handshakes and the
	// requests in flight: one more only while it has fewer than that part of those
	// free.
	groupPart = 4

	// groupRates is how many peers' rates one IP group has together.
	groupRates = 8
)

// New returns a service that runs nothing yet.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil {
		return nil, errors.New("session: no host")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("session: metrics: %w", err)
	}
	rates, err := lru.New[peer.ID, *limits.Rate](ratedPeers)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	groups, err := lru.New[ipgroup.Group, *limits.Rate](ratedPeers)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	lowered, err := lru.New[string, uint32](ratedPeers)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if deps.Transports == nil {
		deps.Transports = func() []string { return nil }
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	s := &Service{
		inbound: deps.Inbound, listening: deps.Transports, now: deps.Now,
		cfg: cfg, host: deps.Host, userAgent: deps.UserAgent, log: log, m: m, rates: rates, groupRates: groups, lowered: lowered,
		handlers: map[uint16]Handler{},
		peers:    map[peer.ID]*peerEntry{},
		ingress: limits.NewLanes[peer.ID, *task](deps.Limits, limits.Spec{
			Name: "session.ingress", Path: "stream reader → dispatcher", Policy: "busy to the newest of the peer that has most waiting, or to the newcomer if that has as many",
		}, int(cfg.Ingress), int(cfg.Workers)),
		egress: deps.Limits.NewBudget(limits.Spec{
			Name: "session.egress", Path: "anyone → the streams' writers", Policy: "the oldest of the peer that holds most, if more than who asks, becomes busy; else calls wait up to permit_wait, then busy, and answers become busy",
		}, int64(cfg.EgressBytes)),
		places: limits.NewPortions[ipgroup.Group](deps.Limits, limits.Spec{
			Name: "session.sessions", Path: "peers and callers → sessions", Policy: "stream reset, call busy; one IP group opens a quarter of those free at most",
		}, cfg.Sessions, groupPart),
		rateFamily: deps.Limits.NewFamily(limits.Spec{
			Name: "session.control_rate", Path: "one peer → dispatcher", Policy: "reject: busy; what waits for no answer is not read until its turn",
		}, float64(cfg.ControlRate), int(cfg.ControlRate)),
	}
	s.handshakes = limits.NewPortions[ipgroup.Group](deps.Limits, limits.Spec{
		Name: "session.handshakes", Path: "peers → sessions before their HELLO", Policy: "stream reset; one IP group has a quarter of those free at most",
	}, cfg.Handshakes, groupPart)
	s.asking = limits.NewPortions[ipgroup.Group](deps.Limits, limits.Spec{
		Name: "session.asking", Path: "stream reader → dispatcher (requests in flight of all)", Policy: "busy to an IP group that has a quarter of what is free; else see session.ingress",
	}, cfg.Ingress+cfg.Workers, groupPart)
	s.groupRate = deps.Limits.NewFamily(limits.Spec{
		Name: "session.group_rate", Path: "one IP group → dispatcher", Policy: "reject: busy; what waits for no answer is not read until its turn",
	}, groupRates*float64(cfg.ControlRate), groupRates*int(cfg.ControlRate))
	s.answering = deps.Limits.NewGateFamily(limits.Spec{
		Name: "session.max_inflight", Path: "one session → dispatcher", Policy: "reject: busy",
	}, cfg.MaxInflight)
	s.frames = deps.Limits.NewBudgetFamily(limits.Spec{
		Name: "session.egress_frames", Path: "anyone → the writers of one peer (frames)", Policy: "calls wait up to permit_wait, then busy, or the oldest call is told busy (drop_oldest); readers wait",
	}, cfg.EgressFrames, s.fullest(func(p *permits) *limits.Budget { return p.frames }))
	s.bytes = deps.Limits.NewBudgetFamily(limits.Spec{
		Name: "session.peer_egress_bytes", Path: "anyone → the writers of one peer (bytes)", Policy: "calls wait up to permit_wait, then busy, and answers become busy; the oldest first (drop_oldest)",
	}, int64(cfg.PeerEgressBytes), s.fullest(func(p *permits) *limits.Budget { return p.bytes }))
	s.workers = &pool{want: int(cfg.Workers), work: s.work, died: s.workerDied}
	return s, nil
}

// Handle registers the handler of an application protocol, before Run.
// Control has none, and one protocol has one handler: anything else panics.
func (s *Service) Handle(proto uint16, h Handler) {
	if proto == oap.ProtoControl || s.handlers[proto] != nil || h == nil {
		panic(fmt.Sprintf("session: handler of app_proto_id %d", proto))
	}
	s.handlers[proto] = h
}

// Run accepts and opens sessions until ctx ends. It returns nil when every
// session has ended and every goroutine of it has returned.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.mu.Lock()
	again := s.running != nil
	if !again {
		s.running = ctx
	}
	s.mu.Unlock()
	if again {
		return errors.New("session: already running")
	}
	s.draining.Store(false)

	// Workers outlive the sessions, each of which waits for its requests.
	workCtx, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	var workers sync.WaitGroup
	workers.Go(func() { s.workers.run(workCtx) })
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
	workers.Wait()
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
		if err := l.welcome(); err != nil {
			return err
		}
		greeted() // again below, which changes nothing
		return l.serve()
	})
}

// Drain tells every peer to go away within d, refuses new requests and calls
// with draining, and waits until nothing is in flight or ctx ends. It returns
// how many requests were not finished; ending Run's ctx then cuts them off.
func (s *Service) Drain(ctx context.Context, d time.Duration) (unfinished int) {
	s.draining.Store(true)
	for _, l := range s.links() {
		l.goAway(d)
	}
	return s.inflight.wait(ctx)
}
