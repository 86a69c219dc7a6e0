package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
)

// hint returns the hint of a provider that n has of an object, if it has. What
// served the object is named as such.
func hint(t *testing.T, n *running, root, of string) (found api.Provider, ok bool) {
	t.Helper()
	for p, err := range n.api.FindProviders(t.Context(), root, api.FindOptions{Query: api.Query{Limit: 20}}) {
		if err == nil && p.ID == of && (p.Source == "gossip" || p.Source == "peer") {
			return p, true
		}
	}
	return found, false
}

// TestFoundByGossip: what one node adds another fetches without a lookup, over a
// third; what is unpinned is no hint any more, and a node that starts later learns
// of what is.
func TestFoundByGossip(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	a := start(t, joining(seed))
	// b's lookups are of no use: they have no time.
	useless := func(c *config.Config) {
		joining(seed)(c)
		c.DHT.FindTimeout, c.Resolver.Deadline = 10*time.Millisecond, time.Nanosecond
		c.Resolver.PositiveTTL = 100 * time.Millisecond // what is withdrawn is gone soon
	}
	b := start(t, useless)
	dir := newTree(t, 3)
	root := add(t, a, dir)[0].Root.String()
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.WriteFile(gone, []byte("pinned for a moment"), 0o600); err != nil {
		t.Fatal(err)
	}
	moment := add(t, a, gone)[0].Root.String()
	testkit.Eventually(t, "hints", func() bool {
		p, ok := hint(t, b, root, a.ID().ID)
		_, also := hint(t, b, moment, a.ID().ID)
		return ok && also && len(p.Addrs) > 0 && time.Until(p.NotAfter) > time.Minute
	})
	if f, err := b.api.Fetch(t.Context(), root, nil); err != nil || f.Kind != api.Directory {
		t.Fatalf("%+v, %v", f, err)
	}
	if n := metric(t, b, `resolver_sources_total{origin="gossip"}`); n == 0 {
		t.Error("no source was drawn from gossip")
	}
	if n := metric(t, b, `resolver_sources_total{origin="dht"}`); n != 0 {
		t.Errorf("%d sources were drawn from the DHT", n)
	}

	if err := a.api.Unpin(t.Context(), moment, ""); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the hint to go", func() bool { _, ok := hint(t, b, moment, a.ID().ID); return !ok })
	if _, ok := hint(t, b, root, a.ID().ID); !ok {
		t.Error("another hint went with it")
	}

	c := start(t, useless)
	testkit.Eventually(t, "a latecomer's hint", func() bool { _, ok := hint(t, c, root, a.ID().ID); return ok })
	if _, ok := hint(t, c, moment, a.ID().ID); ok {
		t.Error("a latecomer learned what was withdrawn")
	}
	if n := metric(t, c, `announce_accepted_total{via="sync"}`); n == 0 {
		t.Error("it did not come by a comparison")
	}
}
