package kadhost

import (
	"testing"

	"github.com/libp2p/go-libp2p-kbucket/peerdiversity"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// TestGroupFilter: a bucket holds at most two peers of a group, and a peer that
// leaves makes space for another.
func TestGroupFilter(t *testing.T) {
	addrs := map[peer.ID][]ma.Multiaddr{}
	share := NewGroupFilter(2, func(p peer.ID) []ma.Multiaddr { return addrs[p] })
	bucket := 0
	f, err := peerdiversity.NewFilter(share, "", func(peer.ID) int { return bucket })
	if err != nil {
		t.Fatal(err)
	}
	add := func(p peer.ID, want bool, at ...string) {
		t.Helper()
		for _, a := range at {
			addrs[p] = append(addrs[p], ma.StringCast(a))
		}
		if got := f.TryAdd(p); got != want {
			t.Errorf("%s is added: %t", p, got)
		}
	}
	add("no address", false)
	for _, p := range []peer.ID{"a", "b", "c", "d"} {
		add("private "+p, true, "/ip4/10.0.0.1/tcp/1", "/ip6/::1/tcp/1")
		add("named "+p, true, "/dns4/example.org/tcp/1")
	}
	add("a", true, "/ip4/45.1.0.1/tcp/1", "/ip4/45.1.0.1/udp/1/quic-v1", "/ip4/10.0.0.1/tcp/1") // counts once
	add("b", true, "/ip4/45.1.9.9/tcp/1", "/ip4/45.2.0.1/tcp/1")
	add("c", false, "/ip4/45.1.0.3/tcp/1")
	add("d", false, "/ip4/45.3.0.1/tcp/1", "/ip4/45.1.0.4/tcp/1")
	add("e", true, "/ip4/45.2.0.2/tcp/1")
	bucket = 1
	add("f", true, "/ip4/45.1.0.5/tcp/1")
	bucket = 0
	f.Remove("b")
	add("g", true, "/ip4/45.1.0.6/tcp/1")
	add("h", true, "/ip4/45.2.0.3/tcp/1")
	for _, p := range []peer.ID{"a", "e", "g", "h"} {
		f.Remove(p)
	}
	bucket = 1
	f.Remove("f")
	for g := range share.counts {
		if g.group != localGroup {
			t.Errorf("%v is still counted", g)
		}
	}
}
