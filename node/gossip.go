package node

import (
	"context"

	"allium/node/supervise"
	"allium/protocols/announce"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/gossip"
	"allium/protocols/status"
	"allium/resolver"
)

// startGossip starts gossip and what is said by it: new pins. A seed takes part
// too: it relays, and brings latecomers what they missed.
func (n *Node) startGossip(ctx context.Context) (err error) {
	n.announces, err = announce.New(n.cfg.Announce, announce.Deps{
		Host: n.host, Key: n.key, Publish: func(ctx context.Context, data []byte) error {
			return n.gossip.Publish(ctx, announce.Topic, data)
		},
		Now: n.faults.now, Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	n.gossip, err = gossip.New(n.cfg.Gossip, gossip.Deps{
		Host: n.host, Topics: []gossip.Topic{{
			Name: announce.Topic, Validate: n.announces.Validate,
			Handle: func(ctx context.Context, m gossip.Message) { n.announces.Handle(ctx, m.Data) },
		}},
		Log: n.log, Metrics: n.registry, Limits: n.limits,
	})
	if err != nil {
		return err
	}
	if err := n.services.Start(ctx, supervise.Service{Name: "gossip", Run: n.gossip.Run}); err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{Name: "announcements", Run: n.announces.Run})
}

// hints is who announced an object, as the resolver asks.
func (n *Node) hints(root b3.Root) []resolver.Provider {
	found := n.announces.Hints(root)
	providers := make([]resolver.Provider, len(found))
	for i, h := range found {
		providers[i] = resolver.Provider{Addr: h.AddrInfo, NotAfter: h.NotAfter}
	}
	return providers
}

// tell announces an object by gossip. What there is no room for is found
// through the DHT.
func (n *Node) tell(root b3.Root) {
	if err := n.announces.Announce(root); err != nil {
		n.log.Debug("an object is not announced by gossip", "root", root, "reason", status.Of(err))
	}
}

// withdraw takes the announcement of an object back that is pinned no more,
// unless it is announced for being here. What hangs below it is forgotten when
// its announcement ends.
func (n *Node) withdraw(ctx context.Context, root b3.Root) {
	if n.cfg.DHT.Announce == dht.AnnounceAll && n.has(ctx, root) {
		return
	}
	if err := n.announces.Withdraw(root); err != nil {
		n.log.Debug("an announcement is not taken back, and ends by itself", "root", root, "reason", status.Of(err))
	}
}
