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

	"allium/protocols/admission"
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
	Limits    *admission.Registry
}

// Service runs the sessions of a node. Its methods are safe for concurrent use.
type Service struct {
	cfg       Config
	host      Host
	userAgent string
	log       *slog.Logger
	m         *metrics
	handlers  map[uint16]Handler

	ingress    *admission.Lanes[peer.ID, *task]
	workers    *pool
	egress     *admission.Budget
	places     *admission.Gate
	handshakes *admission.Gate         // of peers: HELLOs under way
	answering  *admission.GateFamily   // requests of one session
	frames     *admission.BudgetFamily // of one peer
	bytes      *admission.BudgetFamily // of one peer
	rateFamily *admission.Family
	rates      *lru.Cache[peer.ID, *admission.Rate] // outlives the sessions, so that a new one brings no new burst

	exchanges sync.Pool // *exchange: of calls that were answered, for the next ones

	inflight inflight
	draining atomic.Bool
	wg       sync.WaitGroup // links and openings

	mu      sync.Mutex // before link.mu; nothing is called while it is held
	running context.Context
	peers   map[peer.ID]*peerEntry
}

// ratedPeers bounds the buckets kept for peers, most recent first.
const ratedPeers = 16384

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
	rates, err := lru.New[peer.ID, *admission.Rate](ratedPeers)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, host: deps.Host, userAgent: deps.UserAgent, log: log, m: m, rates: rates,
		handlers: map[uint16]Handler{},
		peers:    map[peer.ID]*peerEntry{},
		ingress: admission.NewLanes[peer.ID, *task](deps.Limits, admission.Spec{
			Name: "session.ingress", Path: "stream reader → dispatcher", Policy: "busy to who has most waiting: its newest (reject) or its oldest (drop_oldest)",
		}, int(cfg.Ingress), int(cfg.Workers), cfg.IngressPolicy),
		egress: deps.Limits.NewBudget(admission.Spec{
			Name: "session.egress", Path: "anyone → the streams' writers", Policy: "the oldest of the peer that holds most, if more than who asks, becomes busy; else calls wait up to permit_wait, then busy, and answers become busy",
		}, int64(cfg.EgressBytes)),
		places: deps.Limits.NewGate(admission.Spec{
			Name: "session.sessions", Path: "peers and callers → sessions", Policy: "stream reset, call busy",
		}, cfg.Sessions, 0),
		rateFamily: deps.Limits.NewFamily(admission.Spec{
			Name: "session.control_rate", Path: "one peer → dispatcher", Policy: "reject: busy; what waits for no answer is not read until its turn",
		}, float64(cfg.ControlRate), int(cfg.ControlRate)),
	}
	s.handshakes = deps.Limits.NewGate(admission.Spec{
		Name: "session.handshakes", Path: "peers → sessions before their HELLO", Policy: "stream reset",
	}, cfg.Handshakes, 0)
	s.answering = deps.Limits.NewGateFamily(admission.Spec{
		Name: "session.max_inflight", Path: "one session → dispatcher", Policy: "reject: busy",
	}, cfg.MaxInflight)
	s.frames = deps.Limits.NewBudgetFamily(admission.Spec{
		Name: "session.egress_frames", Path: "anyone → the writers of one peer (frames)", Policy: "calls wait up to permit_wait, then busy, or the oldest call is told busy (drop_oldest); readers wait",
	}, cfg.EgressFrames, s.fullest(func(p *permits) *admission.Budget { return p.frames }))
	s.bytes = deps.Limits.NewBudgetFamily(admission.Spec{
		Name: "session.peer_egress_bytes", Path: "anyone → the writers of one peer (bytes)", Policy: "calls wait up to permit_wait, then busy, and answers become busy; the oldest first (drop_oldest)",
	}, int64(cfg.PeerEgressBytes), s.fullest(func(p *permits) *admission.Budget { return p.bytes }))
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
	greeted, err := s.handshakes.TryAcquire()
	if err != nil {
		_ = stream.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer greeted()
	release, err := s.places.TryAcquire()
	if err != nil {
		_ = stream.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer release()
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
