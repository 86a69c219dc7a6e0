package gossip

import (
	"context"
	"runtime/debug"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"

	"allium/internal/limits"
)

// subscriptionQueue is how many messages of a topic wait between pubsub's loop
// and collect, which only moves them.
const subscriptionQueue = 64

// collect moves a topic's messages to the ingress queue.
func (s *Service) collect(ctx context.Context, sub *pubsub.Subscription) {
	for {
		m, err := sub.Next(ctx)
		if err != nil {
			return
		}
		if s.ingress.TryPut(Message{Topic: sub.Topic(), From: m.GetFrom(), Via: m.ReceivedFrom, Data: m.GetData()}) != nil {
			s.m.drop(dropIngress, 1)
		}
	}
}

// work handles messages until ctx ends.
func (s *Service) work(ctx context.Context) {
	for {
		m, err := s.ingress.Get(ctx)
		if err != nil {
			return
		}
		s.handle(ctx, m)
	}
}

// handle hands one message to its topic. A panic is a bug that costs one message.
func (s *Service) handle(ctx context.Context, m Message) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.m.panics.Inc()
			s.log.Error("gossip handler panicked", "topic", m.Topic, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	s.m.delivered.Inc()
	s.topics[m.Topic].Handle(ctx, m)
}

// sampleEvery is how old gossip_peers may be.
const sampleEvery = 5 * time.Second

// sample keeps gossip_peers.
func (s *Service) sample(ctx context.Context, ps *pubsub.PubSub) {
	for {
		for _, name := range s.names {
			s.m.peers.WithLabelValues(name).Set(float64(len(ps.ListPeers(name))))
		}
		if limits.Sleep(ctx, sampleEvery) != nil {
			return
		}
	}
}
