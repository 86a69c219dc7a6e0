package gossip

import (
	"context"

	pubsub "github.com/libp2p/go-libp2p-pubsub"

	"allium/internal/guard"
)

// subscriptionQueue is the most messages of one topic that wait between pubsub's loop and
// enqueueMessages. It is small because enqueueMessages never blocks on the ingress queue.
const subscriptionQueue = 64

// enqueueMessages moves a topic's messages to the ingress queue until ctx ends. A message that finds
// the queue full is dropped and counted.
func (s *Service) enqueueMessages(ctx context.Context, sub *pubsub.Subscription) {
	for {
		m, err := sub.Next(ctx)
		if err != nil {
			return
		}
		if s.ingress.TryPut(Message{Topic: sub.Topic(), From: m.GetFrom(), Via: m.ReceivedFrom,
			Data: m.GetData()}) != nil {
			s.m.drop(dropIngress, 1)
		}
	}
}

// handleMessages is one worker: it handles messages of the ingress queue until ctx ends.
func (s *Service) handleMessages(ctx context.Context) {
	for {
		m, err := s.ingress.Get(ctx)
		if err != nil {
			return
		}
		s.handle(ctx, m)
	}
}

// handle calls the handler of the message's topic. It recovers from a panic, so that a bug in a
// handler loses one message only.
func (s *Service) handle(ctx context.Context, m Message) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
	defer cancel()
	s.m.delivered.Inc()
	g := guard.Guard{Log: s.log, Panics: s.m.panics}
	_ = g.Run("gossip handler panicked", func() error {
		s.topics[m.Topic].Handle(ctx, m)
		return nil
	}, func() []any { return []any{"topic", m.Topic} })
}
