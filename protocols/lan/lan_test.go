package lan

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/limits"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const alice = "12D3KooWE4239U7UocwvYzy1zc4TNYj54dUB2XWKEPgZJCCWAeKJ"

var home = []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")}

func addrs(s ...string) (as []ma.Multiaddr) {
	for _, a := range s {
		as = append(as, ma.StringCast(a))
	}
	return as
}

func decode(t testing.TB, s string) peer.ID {
	t.Helper()
	id, err := peer.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestPackets: what a node sends is what another one reads.
func TestPackets(t *testing.T) {
	t.Parallel()
	p, err := query()
	if err != nil {
		t.Fatal(err)
	}
	if asks, found, err := parse(p); !asks || found.id != "" || err != nil {
		t.Errorf("a query: %v, %v, %v", asks, found, err)
	}
	in := sighting{decode(t, alice), addrs("/ip4/192.168.1.2/tcp/1", "/ip4/192.168.1.2/udp/1/quic-v1"), "00ff"}
	if p, err = announcement(in, false); err != nil {
		t.Fatal(err)
	}
	asks, out, err := parse(p)
	if asks || err != nil || out.id != in.id || out.network != "00ff" ||
		!slices.EqualFunc(out.addrs, in.addrs, ma.Multiaddr.Equal) {
		t.Errorf("an announcement: %v, %v, %v", asks, out, err)
	}
	if p, err = announcement(in, true); err != nil {
		t.Fatal(err)
	}
	if _, out, err := parse(p); out.id != "" || err != nil {
		t.Errorf("a node that leaves: %v, %v", out, err)
	}
	for n := range p {
		_, _, _ = parse(p[:n]) // does not panic
	}
}

// TestWithin: only direct addresses in the networks of the interface are dialed.
func TestWithin(t *testing.T) {
	t.Parallel()
	got := within(addrs("/ip4/192.168.1.2/tcp/1", "/ip4/192.168.2.2/tcp/1", "/ip4/203.0.113.7/tcp/1",
		"/ip4/127.0.0.1/tcp/1", "/dns4/example.org/tcp/1", "/ip6/2001:db8::1/tcp/1",
		"/ip4/192.168.1.9/tcp/1/p2p/"+alice+"/p2p-circuit"), home)
	if len(got) != 1 || got[0].String() != "/ip4/192.168.1.2/tcp/1" {
		t.Errorf("got %v", got)
	}
	var many []ma.Multiaddr
	for i := range 2 * maxAddrs {
		many = append(many, ma.StringCast(fmt.Sprintf("/ip4/192.168.1.2/tcp/%d", i+1)))
	}
	if n := len(within(many, home)); n != maxAddrs {
		t.Errorf("%d addresses, want %d", n, maxAddrs)
	}
}

// TestDue: a peer is not dialed again at once, later after each failure, and a flood of peers is not
// remembered.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, err := simplelru.NewLRU[peer.ID, *attempt](maxPeers, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &Service{seen: seen}
		for i, want := range []time.Duration{redial, 2 * redial, 4 * redial} {
			if !s.due("a", time.Now()) || s.due("a", time.Now()) {
				t.Fatalf("attempt %d", i)
			}
			time.Sleep(want - time.Second)
			if s.due("a", time.Now()) {
				t.Errorf("attempt %d: again before %s", i, want)
			}
			s.dialed("a", fmt.Errorf("refused"))
			time.Sleep(time.Second)
		}
		for i := range 10 * maxPeers {
			s.due(peer.ID(fmt.Sprint(i)), time.Now())
		}
		if seen.Len() != maxPeers {
			t.Errorf("%d peers are remembered", seen.Len())
		}
	})
}

// TestHostile: packets from elsewhere, and garbage, lead to nothing.
func TestHostile(t *testing.T) {
	t.Parallel()
	var none *limits.Registry
	l := &link{s: &Service{self: "me", network: ""}, at: netInterface{nets: home}, answer: make(chan struct{}, 1),
		rate: none.NewRate(limits.Spec{Name: "x"}, 1, 1)}
	far, err := announcement(sighting{decode(t, alice), addrs("/ip4/192.168.2.2/tcp/1"), ""}, false)
	if err != nil {
		t.Fatal(err)
	}
	other, err := announcement(sighting{decode(t, alice), addrs("/ip4/192.168.1.2/tcp/1"), "ff"}, false)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := query()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from   string
		packet []byte
		want   string
	}{
		{"203.0.113.7", ask, "elsewhere"},
		{"192.168.1.7", far, "elsewhere"},
		{"192.168.1.7", other, "other_network"},
		{"192.168.1.7", []byte("nonsense"), "malformed"},
		{"192.168.1.7", nil, "malformed"},
		{"192.168.1.7", ask, "query"},
		{"192.168.1.7", ask, "query"}, // a flood is one answer
	} {
		if got := l.handle(netip.MustParseAddr(c.from), c.packet); got != c.want {
			t.Errorf("from %s: %s, want %s", c.from, got, c.want)
		}
	}
	if len(l.answer) != 1 {
		t.Errorf("%d answers", len(l.answer))
	}
}

// FuzzParse: no packet panics, and what is read is bounded.
func FuzzParse(f *testing.F) {
	p, err := query()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		if _, found, _ := parse(p); len(found.addrs) > maxAddrs {
			t.Errorf("%d addresses", len(found.addrs))
		}
	})
}
