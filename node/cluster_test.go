package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"allium/gateway/policy/capabilities"
	"allium/internal/testkit"
)

// ring is the content of a capability ring that the nodes of a cluster have in common.
type ring []byte

func newRing(t testing.TB) ring {
	t.Helper()
	home := t.TempDir()
	if _, err := capabilities.Open(home).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := os.ReadFile(filepath.Join(home, "capability.keys"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// home returns a home of a member.
func (r ring) home(t testing.TB) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "capability.keys"), r, 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// TestClusterMeets: six nodes that have one ring and one seed in common know each other. The seed,
// which has no ring, knows nobody.
func TestClusterMeets(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	nodes := make([]*running, 6)
	begun := time.Now()
	ring := newRing(t)
	for i := range nodes {
		nodes[i] = startAt(t, ring.home(t), joining(seed))
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
