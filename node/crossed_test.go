package node_test

import (
	"sync"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestConnectAtOnce: two nodes that connect to each other at one moment are connected. TCP makes one connection of
// both dials then and again, at which neither is a server.
func TestConnectAtOnce(t *testing.T) {
	noLeaks(t)
	nodes := []*running{start(t, nil), start(t, nil)}
	for range 30 {
		var dialling sync.WaitGroup
		for i, n := range nodes {
			dialling.Go(func() {
				if _, err := n.api.Connect(t.Context(), nodes[1-i].ID().Addrs[0]); err != nil {
					t.Error(err)
				}
			})
		}
		dialling.Wait()
		for i, n := range nodes {
			testkit.Eventually(t, "no connection", func() bool {
				return status.Of(n.api.Disconnect(t.Context(), nodes[1-i].ID().ID)) == status.NotFound
			})
		}
	}
}
