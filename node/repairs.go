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

// mayRepair reports whether a node fetches damaged objects again by itself. A seed
// does not, as it stores no content; nor does a store in RAM, which does not rot.
func mayRepair(cfg config.Config) bool {
	return cfg.Node.Profile != p2p.Seed && cfg.Store.Backend != store.BackendMemory
}

// peersWait is the longest time that the first repair waits for the network.
const peersWait = 30 * time.Second

// awaitPeers waits until the node has found its network, at most peersWait. A
// repair that begins earlier fails and is only tried again minutes later.
func (n *Node) awaitPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, peersWait)
	defer cancel()
	for !n.bootstrapGate().Ready() || !n.tableGate().Ready() {
		if limits.Sleep(ctx, peersWait/300) != nil {
			return
		}
	}
}

// startRepairs starts repairs. It is a stage after the resolver, which finds
// their providers.
func (n *Node) startRepairs(ctx context.Context) error {
	n.repairs.Join(n.store, n.resolver)
	run := func(ctx context.Context, ready func()) error {
		ready()
		n.awaitPeers(ctx)
		n.repairs.Run(ctx)
		return nil
	}
	service := supervise.Service{
		Name: "repairs", Owner: "store/cluster/repair", Doc: "fetches damaged and lost objects again", Run: run,
		When: "store.repair_rate above 0, content on disk or in a bucket",
	}
	if n.repairs.Off() {
		n.services.Declare(service)
		return nil
	}
	return n.services.Start(ctx, service)
}
