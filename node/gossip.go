package node

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/node/supervise"
	"allium/protocols/gossip"
	"allium/protocols/hints"
	"allium/protocols/name"
	"allium/resolver/names/updates"
	"allium/store/cluster/offer"
)

// startGossip starts gossip and the hints that it carries: which node has pinned
// what. A seed takes part too: it relays hints, and sends recent ones to peers
// that connect late.
func (n *Node) startGossip(ctx context.Context) (err error) {
	n.hints, err = hints.New(n.cfg.Announce, hints.Deps{
		Env:  n.env(),
		Host: n.host, Key: n.key, Publish: func(ctx context.Context, data []byte) error {
			return n.gossip.Publish(ctx, hints.Topic, data)
		},
		ClockWrong: n.clock.Wrong, MayExpire: n.clock.MayExpire, IgnorePeer: n.access.Denied,
	})
	if err != nil {
		return err
	}
	n.updates = updates.New(updates.Deps{
		Env:     n.env(),
		Publish: func(ctx context.Context, data []byte) error { return n.gossip.Publish(ctx, updates.Topic, data) },
		Self:    n.host.ID(), HasPeers: func() bool { return n.gossip.Followers(updates.Topic) > 0 },
		Learned: n.learnName,
	})
	if err := n.newMembers(); err != nil {
		return err
	}
	n.gossip, err = gossip.New(n.cfg.Gossip, gossip.Deps{
		Env:  n.env(),
		Host: n.host, Topics: []gossip.Topic{{
			Name:     hints.Topic,
			Validate: func(_ context.Context, m gossip.Message) error { return n.hints.Validate(m.From, m.Data) },
			Handle:   func(ctx context.Context, m gossip.Message) { n.hints.Handle(ctx, m.Via, m.Data) },
		}, {
			Name:     updates.Topic,
			Validate: func(_ context.Context, m gossip.Message) error { return n.updates.Validate(m.Via, m.Data) },
			Handle:   func(_ context.Context, m gossip.Message) { n.updates.Handle(m.Data) },
		}, {
			Name:     offer.Topic,
			Validate: func(_ context.Context, m gossip.Message) error { return n.members.Validate(m.From, m.Data) },
			Handle:   func(_ context.Context, m gossip.Message) { n.members.Handle(m.From, m.Data) },
		}},
		IgnorePeer: n.access.Denied, Twin: n.twinSeenBy,
	})
	if err != nil {
		return err
	}
	n.publisher.Join(n.hints, n.dht)
	err = n.services.Start(ctx, supervise.Service{
		Name: "gossip", Doc: "carries announcements, names and offers between peers", Run: n.gossip.Run,
	})
	if err != nil {
		return err
	}
	err = n.services.Start(ctx, supervise.Service{
		Name: "name_updates", Doc: "sends records of names by gossip, at most one in ten seconds each",
		Run: n.updates.Run,
	})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{
		Name: "announcements", Doc: "tells peers what this node has, and remembers what they told", Run: n.hints.Run,
	})
}

// learnName takes up the record of a name that another node has announced, if this node holds,
// remembers or follows the name.
func (n *Node) learnName(rec name.Signed) {
	n.dht.UpdateName(rec)
	if n.started.Load() && n.resolver.ObserveName(rec, true) {
		n.events.Name(rec)
	}
}

// twinSeenBy notes that a peer is connected to another process with this node's identity, too.
func (n *Node) twinSeenBy(id peer.ID) {
	at := make([]ma.Multiaddr, 0, 1)
	for _, c := range n.host.Network().ConnsToPeer(id) {
		at = append(at, c.RemoteMultiaddr())
	}
	n.duplicates.noteSeenBy(id, at)
}
