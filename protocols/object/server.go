package object

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ipgroup"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/inbound"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Acceptor is what a [Server] needs of a libp2p host.
type Acceptor interface {
	SetStreamHandler(protocol.ID, network.StreamHandler)
	RemoveStreamHandler(protocol.ID)
}

// ServerDeps is what a [Server] works with. Host and Store are required.
type ServerDeps struct {
	Host  Acceptor
	Store Store
	// MaxFrame is the max_frame negotiated on a connection, in bytes; nil:
	// oap.MaxFrame.
	MaxFrame func(network.Conn) uint32
	// Corrupt, if set, is told of a local object whose bytes failed
	// verification, once per failed transfer. It must not block.
	Corrupt func(root b3.Root, err error)

	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
	Limits  *limits.Registry      // nil: limits work and are listed nowhere
	Inbound *inbound.Memory       // of frames that are not complete; nil: not bounded
}

// Server answers get and have on object streams (OAP1.md §9).
type Server struct {
	cfg     Config
	deps    ServerDeps
	log     *slog.Logger
	metrics *metrics
	streams *limits.Portions[ipgroup.Group] // streams open
	asking  *limits.Portions[ipgroup.Group] // requests being served or waiting
	serving *limits.Gate                    // requests being served
	egress  *limits.Budget                  // bytes of buffers in use
	rate    *limits.Rate                    // bytes of items per second; nil for no limit
	peers   peers

	open     latch.Latch // of streams, until Run ends
	requests latch.Latch // of requests in flight, until Drain
}

// groupPart bounds what one IP group has of the streams and of the requests in
// flight: one more only while it has fewer than that part of those free.
const groupPart = 4

// NewServer validates and starts nothing.
func NewServer(cfg Config, deps ServerDeps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil || deps.Store == nil {
		return nil, errors.New("object: a server needs a host and a store")
	}
	if deps.MaxFrame == nil {
		deps.MaxFrame = func(network.Conn) uint32 { return oap.MaxFrame }
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, metrics: newMetrics(deps.Metrics)}
	s.peers = peers{cfg: cfg, m: map[peer.ID]*servedPeer{}}
	l := deps.Limits
	s.streams = limits.NewPortions[ipgroup.Group](l, limits.Spec{
		Name: "object.inbound_streams", Path: "libp2p → a reader and a writer for each stream", Policy: "reset with a code; one IP group has a quarter of those free at most",
	}, cfg.InboundStreams, groupPart)
	s.asking = limits.NewPortions[ipgroup.Group](l, limits.Spec{
		Name: "object.asking", Path: "object streams → serving permits (requests in flight of all)", Policy: "busy; one IP group has a quarter of those free at most",
	}, cfg.Serving+cfg.ServingWait, groupPart)
	s.serving = l.NewGate(limits.Spec{
		Name: "object.serving", Path: "object streams → store reads", Policy: "wait, then busy",
	}, cfg.Serving, cfg.ServingWait)
	s.egress = l.NewBudget(limits.Spec{
		Name: "object.egress_bytes", Path: "store reads → object streams", Policy: "wait, then busy",
	}, int64(cfg.EgressBytes))
	if cfg.ServeRate > 0 {
		// A burst is what a timer oversleeps at most, and no less than a frame.
		burst := max(int64(cfg.ServeRate)/20, oap.MaxFrame)
		s.rate = l.NewRate(limits.Spec{
			Name: "object.serve_rate", Path: "object streams → the network (bytes of items per second)", Policy: "wait, then rate_limit",
		}, float64(cfg.ServeRate), int(burst))
	}
	return s, nil
}

// Run serves until ctx is done, then resets what is still open and joins it.
// Streams are taken from the call of ready on.
func (s *Server) Run(ctx context.Context, ready func()) error {
	s.deps.Host.SetStreamHandler(ProtocolID, func(st network.Stream) { s.accept(ctx, st) })
	ready()
	<-ctx.Done()
	s.deps.Host.RemoveStreamHandler(ProtocolID)
	s.open.Wait()
	return nil
}

// Drain refuses new requests with 503 draining and waits until those accepted
// before are answered, or ctx is done; what Run's end then cuts off is counted
// in object_requests_aborted_total.
func (s *Server) Drain(ctx context.Context) { s.requests.Drain(ctx) }

// admit counts a request in, unless the server drains.
func (s *Server) admit() error {
	if !s.requests.Enter() {
		return status.Errorf(status.Draining, "object: the node is stopping; ask another one")
	}
	return nil
}

// done counts a request out; its answer has been written.
func (s *Server) done() { s.requests.Leave() }

// accept serves one stream in the goroutine that libp2p made for it.
func (s *Server) accept(ctx context.Context, st network.Stream) {
	if !s.open.Enter() {
		_ = st.ResetWithError(network.StreamShutdown)
		return
	}
	defer s.open.Leave()
	group := ipgroup.Of(st.Conn().RemoteMultiaddr())
	if s.streams.Enter(group) != nil {
		_ = st.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer s.streams.Leave(group)
	s.metrics.inbound.Inc()
	defer s.metrics.inbound.Dec()
	s.serve(ctx, st, group)
}

// peers holds what is bounded per peer, for as long as a peer has streams.
type peers struct {
	cfg Config
	mu  sync.Mutex
	m   map[peer.ID]*servedPeer
}

// servedPeer bounds one peer over all its streams. Its limits are not in the
// registry: there is one for each peer.
type servedPeer struct {
	streams  int // guarded by peers.mu
	inflight *limits.Gate
	egress   *limits.Budget
}

func (p *peers) enter(id peer.ID) *servedPeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	sp := p.m[id]
	if sp == nil {
		var unlisted *limits.Registry
		sp = &servedPeer{
			inflight: unlisted.NewGate(limits.Spec{Name: "object.peer_inflight"}, p.cfg.PeerInflight, 0),
			egress:   unlisted.NewBudget(limits.Spec{Name: "object.peer_egress_bytes"}, int64(p.cfg.PeerEgressBytes)),
		}
		p.m[id] = sp
	}
	sp.streams++
	return sp
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
