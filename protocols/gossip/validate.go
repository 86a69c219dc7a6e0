package gossip

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// validator is a topic's validator as pubsub calls it: in its pipeline, or on
// the publisher for own messages.
func (s *Service) validator(t Topic) pubsub.ValidatorEx {
	return func(ctx context.Context, _ peer.ID, msg *pubsub.Message) pubsub.ValidationResult {
		if _, ok := msg.ValidatorData.(approved); ok {
			return pubsub.ValidationAccept
		}
		err := s.check(ctx, t, msg.GetFrom(), msg.GetData())
		if err == nil {
			return pubsub.ValidationAccept
		}
		outcome := status.Of(err)
		s.m.refused.WithLabelValues(t.Name, outcome.String()).Inc()
		if harmless(outcome) || errors.Is(err, errPanicked) {
			return pubsub.ValidationIgnore
		}
		return pubsub.ValidationReject
	}
}

// errPanicked is a validator's panic.
var errPanicked = status.Errorf(status.Internal, "the message could not be judged because of a bug in this node; it was logged")

// harmless reports whether a refusal says nothing against whoever brought the
// message.
func harmless(o status.Outcome) bool {
	switch o {
	case status.Stale, status.Busy, status.RateLimit, status.Quota, status.Timeout, status.Canceled, status.Draining, status.NotReady:
		return true
	}
	return false
}

// check runs a topic's validator. A panic is a bug of this node, so the message
// is ignored.
func (s *Service) check(ctx context.Context, t Topic, from peer.ID, data []byte) (err error) {
	if !s.calls.Enter() {
		return status.Errorf(status.Draining, "gossip has stopped")
	}
	defer s.calls.Leave()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ValidateTimeout)
	defer cancel()
	start := time.Now()
	defer func() {
		s.m.validateSeconds.Observe(time.Since(start).Seconds())
		if p := recover(); p != nil {
			s.m.panics.Inc()
			s.log.Error("gossip validator panicked", "topic", t.Name, "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return t.Validate(ctx, from, data)
}
