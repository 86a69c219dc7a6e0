package gossip

import (
	"bytes"
	"context"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"

	"allium/protocols/status"
)

// publication is a message of this node that waits to be signed and sent.
type publication struct {
	topic string
	data  []byte
}

// approved marks a message whose validator has run in Publish.
type approved struct{}

// Publish sends data, at most [MaxMessage] bytes, to whoever follows topic. It
// waits for its turn as long as ctx and [Config.PublishWait] allow and returns
// when the message is queued: whether it arrives anywhere nobody will know. The
// same data again within two minutes is not sent again.
//
// It returns frame_oversize, bad_request for an unknown topic, rate_limit or
// busy when too much is published, the validator's own error, not_ready before
// Run and draining after it.
func (s *Service) Publish(ctx context.Context, topic string, data []byte) error {
	t, ok := s.topics[topic]
	if !ok {
		return status.Errorf(status.BadRequest, "gossip knows no topic %q", topic)
	}
	if len(data) > MaxMessage {
		return status.Errorf(status.FrameOversize, "the message has %d bytes, gossip takes at most %d: publish less of it", len(data), MaxMessage)
	}
	if err := s.running(); err != nil {
		return err
	}
	if err := s.check(ctx, t, s.host.ID(), data); err != nil {
		return err
	}
	most := s.cfg.PublishWait
	if until, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(until))
	}
	if err := s.publish.Wait(ctx, cost(len(data)), most); err != nil {
		return err
	}
	if err := s.running(); err != nil { // it may have stopped meanwhile
		return err
	}
	return s.outbox.TryPut(publication{topic: topic, data: bytes.Clone(data)})
}

// send signs publications and hands them to pubsub.
func (s *Service) send(ctx context.Context, topics map[string]*pubsub.Topic) {
	for {
		p, err := s.outbox.Get(ctx)
		if err != nil {
			break
		}
		if err := topics[p.topic].Publish(ctx, p.data, pubsub.WithValidatorData(approved{})); err != nil {
			s.m.drop(dropPublish, 1)
			s.log.Debug("gossip was not published", "topic", p.topic, "err", err)
		}
	}
	for {
		if _, ok := s.outbox.TryGet(); !ok {
			return
		}
		s.m.drop(dropStopped, 1)
	}
}
