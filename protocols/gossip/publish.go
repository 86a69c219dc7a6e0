package gossip

import (
	"bytes"
	"context"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"

	"allium/protocols/status"
)

// publication is a message of this node, queued until it is signed and sent.
type publication struct {
	topic string
	data  []byte
}

// alreadyValidated marks a message whose validator has run in Publish. It does not run again.
type alreadyValidated struct{}

// Publish queues data, at most [MaxMessage] bytes, to be sent to the subscribers of topic. It waits
// for the publish rate, at most [Config.PublishWait] and until ctx ends, and returns when the
// message is queued. Delivery is not confirmed. The same data is not sent again for one to two
// minutes: as long as this node remembers the message as seen.
//
// Its errors are:
//
//   - bad_request for an unknown topic, frame_oversize for too much data
//   - not_ready before Run and draining after it
//   - the validator's own error
//   - rate_limit when the wait would be too long, and busy when the queue is full
//   - the error of ctx when it ends
func (s *Service) Publish(ctx context.Context, topic string, data []byte) error {
	t, ok := s.topics[topic]
	if !ok {
		return status.Errorf(status.BadRequest, "gossip knows no topic %q", topic)
	}
	if len(data) > MaxMessage {
		return status.Errorf(status.FrameOversize,
			"the message has %d bytes and gossip takes at most %d: publish a smaller message", len(data), MaxMessage)
	}
	if err := s.checkRunning(); err != nil {
		return err
	}
	self := s.host.ID()
	if err := s.validate(ctx, t, Message{Topic: topic, From: self, Via: self, Data: data}); err != nil {
		return err
	}
	maxWait := s.cfg.PublishWait
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = min(maxWait, time.Until(deadline))
	}
	if err := s.rates.publish.Wait(ctx, cost(len(data)), maxWait); err != nil {
		return err
	}
	if err := s.checkRunning(); err != nil { // Run may have returned during the wait
		return err
	}
	return s.outbox.TryPut(publication{topic: topic, data: bytes.Clone(data)})
}

// sendPublications passes queued messages to pubsub, which signs and sends them, until ctx ends.
// It then counts the messages left in the queue as dropped.
func (s *Service) sendPublications(ctx context.Context, topics map[string]*pubsub.Topic) {
	for {
		p, err := s.outbox.Get(ctx)
		if err != nil {
			break
		}
		if err := topics[p.topic].Publish(ctx, p.data, pubsub.WithValidatorData(alreadyValidated{})); err != nil {
			s.m.drop(dropPublish, 1)
			s.log.Debug("cannot publish gossip message", "topic", p.topic, "err", err)
		}
	}
	for {
		if _, ok := s.outbox.TryGet(); !ok {
			return
		}
		s.m.drop(dropStopped, 1)
	}
}
