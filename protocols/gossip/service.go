package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/status"
)

// ProtocolID is the libp2p protocol of gossip streams. It is not one of
// gossipsub's own, so no node of another network is ever taken for a peer.
const ProtocolID = protocol.ID("/allium/gossip/1.0.0")

// Topic is a kind of messages.
type Topic struct {
	Name string // "/allium/1/announce"

	// Validate says whether a message may be handled and relayed. It takes less
	// than 1 ms, does no I/O, holds no lock for long, and returns when ctx ends.
	// Stale, timeout, canceled and the busy class ignore the message;
	// any other error rejects it, which costs whoever brought it score: return
	// stale for what another honest node may still take for good (clocks differ).
	// data must be neither kept nor changed.
	Validate func(ctx context.Context, from peer.ID, data []byte) error

	// Handle gets each accepted message once, own ones excepted, on one of
	// [Config.Workers], with a deadline of [Config.HandleTimeout].
	Handle func(ctx context.Context, m Message)
}

// Message is a message that was accepted.
type Message struct {
	Topic string
	From  peer.ID // who signed it, not who relayed it
	Via   peer.ID // the connected peer that brought it first
	Data  []byte  // shared with the relay: must not be changed
}

// Deps is what a Service needs of its node.
type Deps struct {
	Host    host.Host
	Topics  []Topic
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *limits.Registry
}

// Service is a node's part in gossip. Its methods are safe for concurrent use.
type Service struct {
	cfg    Config
	host   host.Host
	log    *slog.Logger
	m      *metrics
	topics map[string]Topic
	names  []string // of topics, in the order given

	outbox  *limits.Queue[publication]
	ingress *limits.Queue[Message]
	publish *limits.Rate
	total   *limits.Rate
	buckets *limits.Family
	peers   *lru.Cache[peer.ID, *account] // outlives connections, so that a new one brings no new burst

	graylist atomic.Pointer[map[peer.ID]struct{}] // replaced, never changed
	calls    latch.Latch                          // of validators, which pubsub calls on goroutines of its own

	mu    sync.Mutex
	state state
}

type state uint8

const (
	idle state = iota // Run was not called
	running
	stopped
)

// knownPeers bounds the accounts that are kept, most recent first.
const knownPeers = 16384

// New returns a service that runs nothing yet.
func New(cfg Config, d Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Host == nil {
		return nil, errors.New("gossip: no host")
	}
	log := d.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, host: d.Host, log: log, topics: map[string]Topic{}}
	s.calls.Close() // until Run
	s.graylist.Store(&map[peer.ID]struct{}{})
	for _, t := range d.Topics {
		if _, again := s.topics[t.Name]; again || t.Name == "" || t.Validate == nil || t.Handle == nil {
			return nil, fmt.Errorf("gossip: topic %q needs a name of its own, Validate and Handle", t.Name)
		}
		s.topics[t.Name] = t
		s.names = append(s.names, t.Name)
	}
	var err error
	if s.peers, err = lru.New[peer.ID, *account](knownPeers); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	if s.m, err = newMetrics(d.Metrics); err != nil {
		return nil, fmt.Errorf("gossip: metrics: %w", err)
	}
	s.outbox = limits.NewQueue[publication](d.Limits, limits.Spec{
		Name: "gossip.publish", Path: "publications → publisher", Policy: "reject: busy",
	}, int(cfg.PublishQueue))
	s.ingress = limits.NewQueue[Message](d.Limits, limits.Spec{
		Name: "gossip.ingress", Path: "pubsub → gossip workers", Policy: "drop newest",
	}, int(cfg.Ingress))
	s.publish = d.Limits.NewRate(limits.Spec{
		Name: "gossip.publish_rate", Path: "publications → publisher", Policy: "waits up to publish_wait, then rate_limit",
	}, float64(cfg.PublishRate), int(cfg.BurstFrames))
	s.total = d.Limits.NewRate(limits.Spec{
		Name: "gossip.total_rate", Path: "all peers → pubsub", Policy: "drop newest",
	}, float64(cfg.TotalRate), int(cfg.TotalRate))
	s.buckets = d.Limits.NewFamily(limits.Spec{
		Name: "gossip.peer_rate", Path: "one peer → pubsub", Policy: "drop newest",
	}, float64(cfg.PeerRate), int(cfg.BurstFrames))
	return s, nil
}

// Run takes part in gossip until ctx ends. It returns nil when everything it
// started has returned; pubsub's own loops, which cannot be waited for, have
// been told to and call nothing of the topics any more.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.mu.Lock()
	again := s.state == running
	s.state = running
	s.mu.Unlock()
	if again {
		return errors.New("gossip: already running")
	}
	h := newGuardedHost(s.host)
	var group sync.WaitGroup
	// Ended by the defer alone, after Publish has been told to refuse.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.calls.Open()
	defer func() {
		s.mu.Lock()
		s.state = stopped
		s.mu.Unlock()
		cancel()
		h.close()
		s.calls.Wait()
		group.Wait()
		for { // what nobody will handle any more
			if _, ok := s.ingress.TryGet(); !ok {
				break
			}
			s.m.drop(dropStopped, 1)
		}
	}()

	ps, err := pubsub.NewGossipSub(runCtx, h, s.options(runCtx)...)
	if err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	joined := make(map[string]*pubsub.Topic, len(s.names))
	for _, name := range s.names {
		sub, topic, err := s.join(ps, name)
		if err != nil {
			return err
		}
		joined[name] = topic
		group.Go(func() { s.collect(runCtx, sub) })
	}
	for range s.cfg.Workers {
		group.Go(func() { s.work(runCtx) })
	}
	group.Go(func() { s.send(runCtx, joined) })
	group.Go(func() { s.sample(runCtx, ps) })
	ready()
	<-ctx.Done()
	return nil
}

// join takes part in a topic.
func (s *Service) join(ps *pubsub.PubSub, name string) (*pubsub.Subscription, *pubsub.Topic, error) {
	err := ps.RegisterTopicValidator(name, s.validator(s.topics[name]), pubsub.WithValidatorConcurrency(int(s.cfg.Validators)))
	if err != nil {
		return nil, nil, fmt.Errorf("gossip: %s: %w", name, err)
	}
	topic, err := ps.Join(name)
	if err != nil {
		return nil, nil, fmt.Errorf("gossip: %s: %w", name, err)
	}
	self := s.host.ID()
	sub, err := topic.Subscribe(pubsub.WithBufferSize(subscriptionQueue),
		pubsub.WithMessageFilter(func(m *pubsub.Message) bool { return m.ReceivedFrom != self }))
	if err != nil {
		return nil, nil, fmt.Errorf("gossip: %s: %w", name, err)
	}
	return sub, topic, nil
}

// running says whether Publish may go on, and why not.
func (s *Service) running() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case running:
		return nil
	case idle:
		return status.Errorf(status.NotReady, "gossip has not started yet")
	default:
		return status.Errorf(status.Draining, "gossip has stopped: the node is going down")
	}
}
