package node

import (
	"context"
	"iter"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/ipgroup"
	"allium/node/members"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/dht"
	"allium/protocols/offer"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/store"
)

// newMembers makes what finds the members of this node's cluster. Gossip, which carries their
// offers, starts after it.
func (n *Node) newMembers() (err error) {
	cfg := members.DefaultConfig()
	if n.cfg.Node.Profile == p2p.Testnet {
		cfg = members.TestnetConfig()
	}
	cfg.Region = n.cfg.Node.Region
	n.members, err = members.New(cfg, members.Deps{
		Key: n.key, Ring: n.clusterRing(), Space: n.offeredSpace,
		Publish: func(ctx context.Context, data []byte) error {
			if n.clock.Wrong() {
				return status.Errorf(status.NotReady, "the clock is wrong")
			}
			return n.gossip.Publish(ctx, offer.Topic, data)
		},
		Provide: func(ctx context.Context, key b3.Root) error { _, err := n.dht.Provide(ctx, key); return err },
		Find: func(ctx context.Context, key b3.Root) iter.Seq2[record.Provider, error] {
			return n.dht.FindProviders(ctx, key, dht.FindOptions{})
		},
		Connect: func(ctx context.Context, p peer.AddrInfo) error {
			if n.host.Network().Connectedness(p.ID) == network.Connected {
				return nil
			}
			return n.host.Connect(ctx, p)
		},
		Network: n.networkOf, Now: n.now, Log: n.log, Metrics: n.registry,
	})
	return err
}

// noRing is the ring of a node that joins no cluster: it keeps no content, or only in RAM.
type noRing struct{}

// Derive implements [offer.Ring].
func (noRing) Derive(string) []capability.Derived { return nil }

func (n *Node) clusterRing() offer.Ring {
	if n.cfg.Node.Amnesia || n.cfg.Node.Profile == p2p.Seed || n.cfg.Store.Backend == store.BackendMemory {
		return noRing{}
	}
	return n.capabilities
}

// offeredShare is the share of the free space that a node offers to its cluster.
const offeredShare = 0.9

// offeredSpace returns the space that this node offers: a share of what is free beyond the reserve.
func (n *Node) offeredSpace() members.Space {
	free := n.store.Stats().Usage.FreeBytes - int64(n.cfg.Store.ReserveBytes)
	bytes := uint64(offeredShare * float64(max(free, 0)))
	return members.Space{Capacity: bytes, Free: bytes}
}

// networkOf returns the network of a peer's addresses, "" while that is not known.
func (n *Node) networkOf(p peer.ID) string {
	addrs := n.host.Addrs()
	if p != n.host.ID() {
		addrs = nil
		for _, c := range n.host.Network().ConnsToPeer(p) {
			addrs = append(addrs, c.RemoteMultiaddr())
		}
	}
	for _, g := range ipgroup.All(addrs) {
		if g != ipgroup.Unplaced {
			return string(g)
		}
	}
	return ""
}

// startMembers is a stage after gossip and the DHT, by which members are found.
func (n *Node) startMembers(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{Name: "members", Run: n.members.Run})
}
