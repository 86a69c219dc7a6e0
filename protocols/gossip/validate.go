package gossip

import (
	"context"
	"errors"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/guard"
	"allium/protocols/status"
)

// validator returns the function that pubsub calls to validate a message of topic t. pubsub calls it
// in its validation pipeline, and for this node's own messages on the goroutine that publishes.
func (s *Service) validator(t Topic) pubsub.ValidatorEx {
	return func(ctx context.Context, via peer.ID, msg *pubsub.Message) pubsub.ValidationResult {
		if _, ok := msg.ValidatorData.(alreadyValidated); ok {
			return pubsub.ValidationAccept
		}
		err := s.validate(ctx, t, Message{Topic: t.Name, From: msg.GetFrom(), Via: via, Data: msg.GetData()})
		if err == nil {
			return pubsub.ValidationAccept
		}
		outcome := status.Of(err)
		s.m.refused.WithLabelValues(t.Name, outcome.String()).Inc()
		if keepsScore(outcome) || errors.Is(err, errPanicked) {
			return pubsub.ValidationIgnore
		}
		return pubsub.ValidationReject
	}
}

// errPanicked reports that a validator panicked.
var errPanicked = status.Errorf(
	status.Internal,
	"the message could not be validated because of a bug in this node; see the node's log",
)

// keepsScore reports whether the peer that sent a message refused with outcome o keeps its score,
// because an honest peer may send such a message.
func keepsScore(o status.Outcome) bool {
	switch o {
	case status.Stale,
		status.Busy,
		status.RateLimit,
		status.Quota,
		status.Timeout,
		status.Canceled,
		status.Draining,
		status.NotReady:
		return true
	}
	return false
}

// validate runs a topic's validator with a deadline of [Config.ValidateTimeout]. It returns
// errPanicked if the validator panics, and draining if Run does not run.
func (s *Service) validate(ctx context.Context, t Topic, m Message) error {
	if !s.calls.Enter() {
		return status.Errorf(status.Draining, "gossip has stopped")
	}
	defer s.calls.Leave()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ValidateTimeout)
	defer cancel()
	defer func(start time.Time) { s.m.validateSeconds.Observe(time.Since(start).Seconds()) }(time.Now())
	g := guard.Guard{Log: s.log, Panics: s.m.panics, Err: errPanicked}
	return g.Run("gossip validator panicked", func() error { return t.Validate(ctx, m) },
		func() []any { return []any{"topic", t.Name} })
}
