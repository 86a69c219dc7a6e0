package node

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store/cluster"
	"allium/store/cluster/intake"
)

// receiver returns what stores the objects that peers put, or nil for a seed, which stores
// no content.
func (n *Node) receiver() object.Receiver {
	if n.cfg.Node.Profile == p2p.Seed {
		return nil
	}
	return intake.New(intake.Deps{
		Store: n.store, Capabilities: n.capabilities, Audit: n.gatewayAudit(),
		Shut: n.shutForPuts, Member: n.member, Filter: n.denylist.At("put"),
		Received: n.repairs.Received, Copies: func(ctx context.Context, from peer.ID, copies []cluster.Copy) [][]byte {
			if !n.started.Load() || n.copies == nil {
				return nil
			}
			return n.copies.Copies(ctx, from, copies)
		},
		Pinned: func(ctx context.Context, root b3.Root, label string) { n.api.Pinned(ctx, root, label) },
	})
}

// features returns the features that HELLO announces of a node.
func features(cfg *config.Config) []string {
	if !cfg.JoinsCluster() {
		return nil
	}
	return []string{oap.FeaturePutCopies}
}

// member returns an error for a peer that is no member of the cluster.
func (n *Node) member(p peer.ID) error {
	if err := n.starting(); err != nil { // members are known later than peers connect
		return err
	}
	return n.members.Member(p)
}

// starting returns the error of a request that came before the node has started, and counts it.
func (n *Node) starting() error {
	if n.started.Load() {
		return nil
	}
	env.NotReady(n.registry).WithLabelValues(env.PhaseStart).Inc()
	return status.Errorf(status.NotReady, "the node is starting; ask again in a second")
}

// shutForPuts returns an error while the node takes no puts of peers.
func (n *Node) shutForPuts() error {
	if err := n.starting(); err != nil {
		return err
	}
	if err := n.store.UnknownLoss(); err != nil {
		return err
	}
	return n.pressure.Refusal()
}
