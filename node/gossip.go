package node

import (
	"context"

	"allium/node/supervise"
	"allium/protocols/gossip"
	"allium/protocols/hints"
)

// startGossip starts gossip and what is said by it: new pins. A seed takes part
// too: it relays, and brings latecomers what they missed.
func (n *Node) startGossip(ctx context.Context) (err error) {
	n.announces, err = hints.New(n.cfg.Announce, hints.Deps{
		Host: n.host, Key: n.key, Publish: func(ctx context.Context, data []byte) error {
			return n.gossip.Publish(ctx, hints.Topic, data)
		},
		Now: n.now, ClockWrong: n.clock.Wrong, MayExpire: n.clock.MayExpire, Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.gossip, err = gossip.New(n.cfg.Gossip, gossip.Deps{
		Host: n.host, Topics: []gossip.Topic{{
			Name: hints.Topic, Validate: n.announces.Validate,
			Handle: func(ctx context.Context, m gossip.Message) { n.announces.Handle(ctx, m.Via, m.Data) },
		}},
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.publisher.Join(n.announces, n.dht)
	if err := n.services.Start(ctx, supervise.Service{Name: "gossip", Run: n.gossip.Run}); err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "announcements", Run: n.announces.Run})
}
