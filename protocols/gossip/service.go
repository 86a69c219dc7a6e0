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
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/env"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/protocols/status"
)

// ProtocolID is the libp2p protocol of gossip streams. It differs from gossipsub's own protocol
// IDs, so nodes of other networks never become gossip peers.
const ProtocolID = protocol.ID("/allium/gossip/1.0.0")

// Topic describes one kind of message: how to validate it and how to handle it.
type Topic struct {
	Name string // "/allium/1/announce"

	// Validate returns nil if a message may be handled and relayed. It should take less
	// than 1 ms, do no I/O and hold no lock for long. It must return when ctx ends, after
	// [Config.ValidateTimeout]. It must neither keep nor change the data. From and Via of a message that
	// this node publishes are this node.
	//
	// The outcome of an error decides what happens to the message:
	//
	//   - stale, busy, rate_limit, quota, timeout, canceled, draining and not_ready ignore it.
	//   - Any other error rejects it, and the peer that sent it loses score.
	//
	// Clocks differ, so return stale for a message that another honest node may still accept.
	Validate func(ctx context.Context, m Message) error

	// Handle is called with each accepted message of another node, on one of
	// [Config.Workers] goroutines, with a deadline of [Config.HandleTimeout]. A copy is
	// handled again only if it arrives after the node has forgotten the message, at least
	// one minute later.
	Handle func(ctx context.Context, m Message)
}

// Message is a message of a topic.
type Message struct {
	Topic string
	From  peer.ID // the author, who signed it
	Via   peer.ID // the connected peer that sent it first
	Data  []byte  // shared with the relay: must not be changed
}

// Deps holds what a Service needs from its node. Log, Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Host   host.Host
	Topics []Topic
	// IgnorePeer reports whether the service drops the messages of an author, from any sender. The sender keeps its
	// score. IgnorePeer neither waits nor does I/O. nil: never.
	IgnorePeer func(author peer.ID) bool
	// Twin is called when a connected peer ends this node's streams again and again, as one does that is
	// connected to another node with the same identity. It is called at most once an hour for each peer, and
	// must not wait. nil: nobody is told.
	Twin func(seenBy peer.ID)
}

// Service publishes, relays and handles gossip messages for one node. Its methods are safe for
// concurrent use.
type Service struct {
	cfg     Config
	host    host.Host
	log     *slog.Logger
	m       *metrics
	topics  map[string]Topic
	ignores blacklist
	links   *links
	twin    func(seenBy peer.ID)
	names   []string // topic names, in the order of Deps.Topics

	outbox  *limits.Queue[publication]
	ingress *limits.Queue[Message]
	rates   rates
	tasks   *tasks.Registry
	peers   *lru.Cache[peer.ID, *peerState] // outlives connections: a new connection brings no new burst

	graylist atomic.Pointer[map[peer.ID]struct{}] // the map is replaced, never changed
	calls    latch.Latch                          // validator calls: pubsub makes them on its own goroutines

	mu    sync.Mutex // lock: leaf
	state state
	ps    *pubsub.PubSub // nil unless running
}

// state says whether Run has started or returned.
type state uint8

const (
	notStarted state = iota // Run was not called
	running
	stopped
)

// maxPeerStates is the most peers whose state is remembered. The peer whose state was used least
// recently is forgotten first.
const maxPeerStates = 16384

// rates bound the messages per second.
type rates struct {
	publish *limits.Rate // of this node
	total   *limits.Rate // of all peers
	buckets *limits.Rate // of each peer
}

// New returns a service that starts no goroutine before Run. It returns an error if cfg is out of
// bounds, the host is missing, a topic is incomplete or given twice, or a metric is registered.
func New(cfg Config, d Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Host == nil {
		return nil, errors.New("gossip needs a host")
	}
	d.Env.SetDefaults()
	s := &Service{cfg: cfg, host: d.Host, log: d.Log, topics: map[string]Topic{}, ignores: d.IgnorePeer,
		links: newLinks(), twin: d.Twin}
	s.calls.Close() // until Run
	s.graylist.Store(&map[peer.ID]struct{}{})
	for _, t := range d.Topics {
		if _, duplicate := s.topics[t.Name]; duplicate || t.Name == "" || t.Validate == nil || t.Handle == nil {
			return nil, fmt.Errorf("gossip topic %q needs a unique name, Validate and Handle", t.Name)
		}
		s.topics[t.Name] = t
		s.names = append(s.names, t.Name)
	}
	var err error
	if s.peers, err = lru.New[peer.ID, *peerState](maxPeerStates); err != nil {
		return nil, fmt.Errorf("make the cache of gossip peers: %w", err)
	}
	if s.m, err = newMetrics(d.Metrics); err != nil {
		return nil, fmt.Errorf("register gossip metrics: %w", err)
	}
	s.outbox = limits.NewQueue[publication](d.Limits, limits.Spec{
		Name: "gossip.publish", Path: "publications → publisher", Policy: "reject: busy",
	}, int(cfg.PublishQueue))
	s.ingress = limits.NewQueue[Message](d.Limits, limits.Spec{
		Name: "gossip.ingress", Path: "pubsub → gossip workers", Policy: "drop newest",
	}, int(cfg.Ingress))
	s.rates.publish = d.Limits.NewRate(limits.Spec{
		Name: "gossip.publish_rate", Path: "publications → publisher",
		Policy: "waits up to publish_wait, then rate_limit",
	}, float64(cfg.PublishRate), int(cfg.BurstFrames))
	s.rates.total = d.Limits.NewRate(limits.Spec{
		Name: "gossip.total_rate", Path: "all peers → pubsub", Policy: "drop newest",
	}, float64(cfg.TotalRate), int(cfg.TotalRate))
	s.rates.buckets = d.Limits.NewRate(limits.Spec{
		Name: "gossip.peer_rate", Path: "one peer → pubsub", Policy: "drop newest", Each: "peer",
	}, float64(cfg.PeerRate), int(cfg.BurstFrames))
	s.tasks = d.Tasks
	d.Tasks.List(tasks.Info{
		Name: "gossip.workers", Kind: tasks.Worker, Started: true, Owner: "protocols/gossip", Count: int(cfg.Workers),
		Restart: "its message is dropped and counted, and it takes the next", Doc: "handle the messages of peers",
	})
	return s, nil
}

// Run joins the topics, calls ready, and publishes, relays and handles messages until ctx ends.
// Its goroutines have then returned. pubsub's own loops cannot be waited for: they have been told
// to end, and they call no validator or handler any more. Run may be called again after it has
// returned, but not while it runs.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.mu.Lock()
	alreadyRunning := s.state == running
	s.state = running
	s.mu.Unlock()
	if alreadyRunning {
		return errors.New("gossip is already running")
	}
	var group sync.WaitGroup
	// runCtx outlives ctx: only the deferred function cancels it, after Publish has begun to refuse.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &guardedHost{Host: s.host, ctx: runCtx, replaced: s.streamReplaced, streams: map[peer.ID]network.Stream{}}
	s.calls.Open()
	defer func() {
		s.mu.Lock()
		s.state, s.ps = stopped, nil
		s.mu.Unlock()
		cancel()
		h.close()
		s.calls.CloseAndWait()
		group.Wait()
		for { // count the messages that no worker will handle
			if _, ok := s.ingress.TryGet(); !ok {
				break
			}
			s.m.drop(dropStopped, 1)
		}
	}()

	ps, err := pubsub.NewGossipSub(runCtx, h, s.options(runCtx)...)
	if err != nil {
		return fmt.Errorf("start gossipsub: %w", err)
	}
	s.mu.Lock()
	s.ps = ps
	s.mu.Unlock()
	joined := make(map[string]*pubsub.Topic, len(s.names))
	for _, name := range s.names {
		sub, topic, err := s.join(ps, name)
		if err != nil {
			return err
		}
		joined[name] = topic
		group.Go(func() { s.enqueueMessages(runCtx, sub) })
	}
	for range s.cfg.Workers {
		group.Go(func() { s.tasks.Run(runCtx, s.handleMessages) })
	}
	group.Go(func() { s.sendPublications(runCtx, joined) })
	group.Go(func() { s.samplePeers(runCtx, ps, h) })
	ready()
	<-ctx.Done()
	return nil
}

// join registers a topic's validator, joins the topic and subscribes to the messages of other nodes.
func (s *Service) join(ps *pubsub.PubSub, name string) (*pubsub.Subscription, *pubsub.Topic, error) {
	err := ps.RegisterTopicValidator(
		name,
		s.validator(s.topics[name]),
		pubsub.WithValidatorConcurrency(int(s.cfg.Validators)),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("register the validator of gossip topic %s: %w", name, err)
	}
	topic, err := ps.Join(name)
	if err != nil {
		return nil, nil, fmt.Errorf("join gossip topic %s: %w", name, err)
	}
	self := s.host.ID()
	sub, err := topic.Subscribe(pubsub.WithBufferSize(subscriptionQueue),
		pubsub.WithMessageFilter(func(m *pubsub.Message) bool { return m.ReceivedFrom != self }))
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe to gossip topic %s: %w", name, err)
	}
	return sub, topic, nil
}

// Followers returns how many connected peers follow a topic, 0 while Run does not run.
func (s *Service) Followers(topic string) int {
	s.mu.Lock()
	ps := s.ps
	s.mu.Unlock()
	if ps == nil {
		return 0
	}
	return len(ps.ListPeers(topic))
}

// checkRunning returns nil while Run runs, not_ready before it and draining after it.
func (s *Service) checkRunning() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case running:
		return nil
	case notStarted:
		return status.Errorf(status.NotReady, "gossip has not started yet")
	default:
		return status.Errorf(status.Draining, "gossip has stopped because the node is shutting down")
	}
}
