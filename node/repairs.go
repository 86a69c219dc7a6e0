package node

import (
	"context"
	"time"

	"allium/internal/limits"
	"allium/node/config"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/store"
)

// mayRepair reports whether a node fetches by itself what is damaged: a seed
// keeps no content, and RAM does not rot.
func mayRepair(cfg config.Config) bool {
	return cfg.Node.Profile != p2p.Seed && cfg.Store.Backend != store.BackendMemory
}

// peersWait is how long the first repair waits for the network, at most.
const peersWait = 30 * time.Second

// awaitPeers waits until the node has found its network: before that no repair
// can succeed, and what failed would wait for its next turn.
func (n *Node) awaitPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, peersWait)
	defer cancel()
	for !n.bootstrapGate().Ready() || !n.tableGate().Ready() {
		if limits.Sleep(ctx, peersWait/300) != nil {
			return
		}
	}
}

// startRepairs lets repairs begin: their providers are found from here on.
func (n *Node) startRepairs(ctx context.Context) error {
	n.repairs.Join(n.store, n.resolver)
	if n.repairs.Off() {
		return nil
	}
	return n.services.Start(ctx, supervise.Service{Name: "repairs", Run: func(ctx context.Context, ready func()) error {
		ready()
		n.awaitPeers(ctx)
		n.repairs.Run(ctx)
		return nil
	}})
}
