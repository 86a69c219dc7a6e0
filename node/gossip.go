package node

import (
	"context"

	"allium/node/supervise"
	"allium/protocols/gossip"
	"allium/protocols/hints"
)

// startGossip starts gossip and the hints that it carries: which node has pinned
// what. A seed takes part too: it relays hints, and sends recent ones to peers
// that connect late.
func (n *Node) startGossip(ctx context.Context) (err error) {
	n.hints, err = hints.New(n.cfg.Announce, hints.Deps{
		Host: n.host, Key: n.key, Publish: func(ctx context.Context, data []byte) error {
			return n.gossip.Publish(ctx, hints.Topic, data)
		},
		Now: n.now, ClockWrong: n.clock.Wrong, MayExpire: n.clock.MayExpire,
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.gossip, err = gossip.New(n.cfg.Gossip, gossip.Deps{
		Host: n.host, Topics: []gossip.Topic{{
			Name: hints.Topic, Validate: n.hints.Validate,
			Handle: func(ctx context.Context, m gossip.Message) { n.hints.Handle(ctx, m.Via, m.Data) },
		}},
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.publisher.Join(n.hints, n.dht)
	if err := n.services.Start(ctx, supervise.Service{Name: "gossip", Run: n.gossip.Run}); err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "announcements", Run: n.hints.Run})
}
