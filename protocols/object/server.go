package object

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/env"
	"allium/internal/inbound"
	"allium/internal/ipgroup"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Acceptor is the part of a libp2p host that a [Server] uses.
type Acceptor interface {
	SetStreamHandler(protocol.ID, network.StreamHandler)
	RemoveStreamHandler(protocol.ID)
}

// ServerDeps are the dependencies of a [Server]. Host and Store are required.
type ServerDeps struct {
	env.Env

	Host  Acceptor
	Store Store
	// MaxFrame returns the max_frame in bytes that was negotiated on a connection. If
	// it is nil, oap.MaxFrame applies.
	MaxFrame func(network.Conn) uint32
	// Corrupt, if set, is called once for each transfer that failed because the
	// bytes of a local object are wrong. It must not block.
	Corrupt func(root b3.Root, err error)
	// Sent, if set, is called when ranges of an object of size bytes were written to a stream of c, also
	// if the request failed after them. It must not block, and must not keep ranges.
	Sent func(c network.Conn, root b3.Root, size int64, ranges []b3.Range)
	// Receiver stores what peers put. If it is nil, a put is unsupported.
	Receiver Receiver
	Hash     *b3.HashQueue // limits the hashing of groups that peers put; nil: no limit

	Inbound *inbound.Memory   // limits the bytes of incomplete frames; nil: no limit
	Codec   *oap.Codec        // of compressed frames, shared by the process; nil: the server makes its own
	Upload  *limits.Bandwidth // bounds the bytes of items per second; nil: no bound
}

// Server answers get, have and put on object streams (OAP1.md §9).
type Server struct {
	cfg     atomic.Pointer[Config]
	deps    ServerDeps
	log     *slog.Logger
	metrics *metrics
	bounds  bounds
	peers   peers

	open     latch.Latch // open streams; closed when Run ends
	requests latch.Latch // requests in flight; closed by Drain
}

// NewServer checks cfg and deps and returns a Server. It starts nothing; see Run.
func NewServer(cfg Config, deps ServerDeps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil || deps.Store == nil {
		return nil, errors.New("a server needs a host and a store")
	}
	if deps.Codec == nil {
		deps.Codec = oap.NewCodec(runtime.GOMAXPROCS(0))
	}
	if deps.MaxFrame == nil {
		deps.MaxFrame = func(network.Conn) uint32 { return oap.MaxFrame }
	}
	deps.Env.SetDefaults()
	s := &Server{deps: deps, log: deps.Log, metrics: newMetrics(deps.Metrics)}
	s.cfg.Store(&cfg)
	s.peers, s.bounds = newServedPeers(cfg, deps.Limits), newBounds(cfg, deps.Limits)
	return s, nil
}

// Reconfigure applies the hot fields of a valid configuration at once. Streams keep the rate that they began with, and
// requests beyond a bound that shrank go on.
func (s *Server) Reconfigure(cfg Config) {
	s.cfg.Store(&cfg)
	s.bounds.resize(cfg)
	s.peers.resize(cfg.PeerInflight)
}

// Run serves until ctx is done. Then it resets the open streams and waits for their
// goroutines. It calls ready once it accepts streams.
func (s *Server) Run(ctx context.Context, ready func()) error {
	s.deps.Host.SetStreamHandler(ProtocolID, func(st network.Stream) { s.accept(ctx, st) })
	ready()
	<-ctx.Done()
	s.deps.Host.RemoveStreamHandler(ProtocolID)
	s.open.CloseAndWait()
	return nil
}

// Drain answers new requests with 503 draining and waits until accepted requests
// are answered or ctx is done. object_requests_aborted_total counts the requests
// that the end of Run cuts off.
func (s *Server) Drain(ctx context.Context) { s.requests.Drain(ctx) }

// admit counts a request in flight. The error is draining after Drain was called.
func (s *Server) admit() error {
	if !s.requests.Enter() {
		s.metrics.notReady.WithLabelValues(env.PhaseDrain).Inc()
		return status.Errorf(status.Draining, "the node is stopping; ask another one")
	}
	return nil
}

// done ends the count of a request whose answer was written.
func (s *Server) done() { s.requests.Leave() }

// accept serves one stream, in the goroutine that libp2p started for it.
func (s *Server) accept(ctx context.Context, st network.Stream) {
	if !s.open.Enter() {
		_ = st.ResetWithError(network.StreamShutdown)
		return
	}
	defer s.open.Leave()
	group := ipgroup.Of(st.Conn().RemoteMultiaddr())
	if s.bounds.streams.Enter(group) != nil {
		_ = st.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer s.bounds.streams.Leave(group)
	s.metrics.inbound.Inc()
	defer s.metrics.inbound.Dec()
	s.serve(ctx, st, group)
}

// peers holds the limits of each peer that has open streams.
type peers struct {
	inflight *limits.Gate
	egress   *limits.Budget

	mu sync.Mutex // guards m; lock: metadata
	m  map[peer.ID]*servedPeer
}

func newServedPeers(cfg Config, r *limits.Registry) peers {
	return peers{
		m: map[peer.ID]*servedPeer{},
		inflight: r.NewGate(limits.Spec{
			Name: "object.peer_inflight", Path: "object streams of one peer → requests being answered",
			Policy: "busy", Each: "peer",
		}, cfg.PeerInflight, 0),
		egress: r.NewBudget(limits.Spec{
			Name: "object.peer_egress_bytes", Path: "store reads → object streams of one peer",
			Policy: "wait, then busy", Each: "peer",
		}, int64(cfg.PeerEgressBytes)),
	}
}

// servedPeer has the limits of one peer, over all its streams.
type servedPeer struct {
	streams  int // guarded by peers.mu
	inflight *limits.Gate
	egress   *limits.Budget
}

// enter counts a stream of the peer. The caller must call leave when it ends.
func (p *peers) enter(id peer.ID) *servedPeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	sp := p.m[id]
	if sp == nil {
		sp = &servedPeer{inflight: p.inflight.Member(), egress: p.egress.Member()}
		p.m[id] = sp
	}
	sp.streams++
	return sp
}

// resize changes the requests that each peer may have in flight.
func (p *peers) resize(inflight int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inflight.Resize(inflight)
	for _, sp := range p.m {
		sp.inflight.Resize(inflight)
	}
}

func (p *peers) leave(id peer.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sp := p.m[id]; sp != nil {
		if sp.streams--; sp.streams == 0 {
			delete(p.m, id)
		}
	}
}
