package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/node/capabilities"
)

// TestClusterMeets: six nodes that have one ring and one seed in common know each other. The seed,
// which has no ring, knows nobody.
func TestClusterMeets(t *testing.T) {
	noLeaks(t)
	first := t.TempDir()
	if _, err := capabilities.Open(first).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ring, err := os.ReadFile(filepath.Join(first, "capability.keys"))
	if err != nil {
		t.Fatal(err)
	}
	seed := start(t, nil)
	nodes := make([]*running, 6)
	begun := time.Now()
	for i := range nodes {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "capability.keys"), ring, 0o600); err != nil {
			t.Fatal(err)
		}
		nodes[i] = startAt(t, home, joining(seed))
	}
	started := time.Since(begun)
	present := func(n *running) int64 { return metric(t, n, `durability_members{state="present"}`) }
	for _, n := range nodes {
		testkit.Eventually(t, "six members", func() bool { return present(n) == int64(len(nodes)) })
	}
	t.Logf("started in %s, all know each other %s later", started, time.Since(begun)-started)
	if n := present(seed); n != 0 {
		t.Errorf("a node without a ring knows %d members", n)
	}
}
