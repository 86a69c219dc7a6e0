package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/protocols/status"
)

// gate returns a gate of a node.
func gate(t *testing.T, n *running, name string) (api.Readiness, api.Gate) {
	t.Helper()
	r := n.Readiness()
	for _, g := range r.Gates {
		if g.Name == name {
			return r, g
		}
	}
	t.Fatalf("there is no gate %s in %+v", name, r.Gates)
	return r, api.Gate{}
}

// TestAloneItReadsAndWrites: with its only seed down a node serves what it has
// and stores more; it says that it finds nobody.
func TestAloneItReadsAndWrites(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *config.Config) {
		c.DHT.Seeds.Bootstrap =
			[]string{"/ip4/127.0.0.1/tcp/9/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"}
	})
	r, g := gate(t, n, "bootstrap")
	if g.Ready || r.Ready || r.Network || !r.Reads || !r.Writes {
		t.Errorf("%+v", r)
	}
	if added := add(t, n, newTree(t, 1)); len(added) == 0 {
		t.Error("nothing was added")
	}
	if r, _ := gate(t, n, "bootstrap"); !r.Reads || !r.Writes {
		t.Errorf("after an add: %+v", r)
	}
}

// TestRejectedManifest: the gate and the check tell that it does not count.
func TestRejectedManifest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seeds.pem")
	if err := os.WriteFile(file, []byte("no manifest"), 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(c *config.Config) {
		c.DHT.Seeds.SeedManifest = file
		c.DHT.Seeds.SeedAuthorities = []string{"12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"}
	}
	n := start(t, change)
	r, g := gate(t, n, "seed_manifest")
	if g.Ready || g.Fix == "" || r.Ready || r.Network || !r.Reads || !r.Writes {
		t.Errorf("%+v of %+v", g, r)
	}
	cfg := config.Default("testnet")
	change(&cfg)
	err := node.Check(t.Context(), t.TempDir(), cfg)
	if err == nil || !strings.Contains(err.Error(), "dht.seed_manifest") {
		t.Errorf("the check says %v", err)
	}
}

// TestConnectSaysWhy: another node at the address is no node at its limit.
func TestConnectSaysWhy(t *testing.T) {
	t.Parallel()
	a, b := start(t, nil), start(t, nil)
	for _, addr := range b.ID().Addrs {
		at, _, _ := strings.Cut(addr, "/p2p/")
		_, err := a.api.Connect(t.Context(), at+"/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6")
		if status.Of(err) != status.TransportDown || !strings.Contains(err.Error(), "check the id") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if left := a.Addresses("12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"); left != 0 {
		t.Errorf("the peer that was not there has %d addresses", left)
	}
}
