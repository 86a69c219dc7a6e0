package p2p

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/limits"
)

const (
	ownRelay = "12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5" // at which the node has a reservation
	noRelay  = "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6" // that only says it is one
)

// TestSharedAddresses opens 40 connections each way and counts those that are let in: strangers' are bounded by their
// address, and nothing else is.
func TestSharedAddresses(t *testing.T) {
	t.Parallel()
	circuit := func(at, relay string) string { return at + "/p2p/" + relay + "/p2p-circuit" }
	for _, c := range []struct {
		name    string
		addr    string // %d or %x: the number of the peer
		in, out int
	}{
		{"one IPv4 address", "/ip4/66.0.0.1/tcp/%d", 8, 40},
		{"one private IPv4 address", "/ip4/10.0.0.1/tcp/%d", 8, 40},
		{"an IPv4 LAN", "/ip4/10.0.0.%d/tcp/1", 40, 40},
		{"loopback", "/ip4/127.0.0.1/tcp/%d", 40, 40},
		{"one ULA LAN", "/ip6/fd00:1:2:3::%x/udp/1/quic-v1", 40, 40},
		{"one ULA host", "/ip6/fd00:1:2:3::1/udp/%d/quic-v1", 8, 40},
		{"one link", "/ip6zone/eth0/ip6/fe80::%x/tcp/1", 40, 40},
		{"one host of a link", "/ip6zone/eth0/ip6/fe80::1/tcp/%d", 8, 40},
		{"one host with made-up zones", "/ip6zone/eth%d/ip6/3fff::1/tcp/1", 8, 40},
		{"a public /64", "/ip6/3fff:1:2:3::%x/udp/1/quic-v1", 8, 40},
		{"a public /56", "/ip6/3fff:1:2:%x::1/udp/1/quic-v1", 8, 40},
		{"a site-local /56", "/ip6/fec0:1:2:%x::1/udp/1/quic-v1", 8, 40},
		{"IPv4 as IPv6", "/ip6/::ffff:66.0.0.1/tcp/%d", 8, 40},
		{"an IPv4 LAN as IPv6", "/ip6/::ffff:10.0.0.%d/tcp/1", 40, 40},
		{"NAT64", "/ip6/64:ff9b::42.0.0.1/tcp/%d", 8, 40},
		{"NAT64 of loopback", "/ip6/64:ff9b::127.0.0.1/tcp/%d", 8, 40},
		{"the /48 of 6to4", "/ip6/2002:4200:1:%x00::1/tcp/1", 8, 40},
		{"6to4 of loopback", "/ip6/2002:7f00:1:0:%x::1/tcp/1", 8, 40},
		{"the own relay", circuit("/ip4/66.0.0.1/tcp/%d", ownRelay), 40, 40},
		{"the own relay in one LAN", circuit("/ip6/fd00::1/tcp/%d", ownRelay), 40, 40},
		{"the own relay without an address", circuit("/dns4/r%d.example/tcp/1", ownRelay), 40, 40},
		{"another relay", circuit("/ip6/3fff:1:2:3::%x/tcp/1", noRelay), 0, 40},
		{"an unnamed relay", "/ip4/66.0.0.1/tcp/%d/p2p-circuit", 0, 40},
		{"no address", "/dns4/h%d.example/tcp/1", 8, 40},
	} {
		for _, p := range []Profile{Desktop, Pi} {
			t.Run(fmt.Sprintf("%s %s", c.name, p), func(t *testing.T) {
				t.Parallel()
				cfg, err := ProfileConfig(p)
				if err != nil {
					t.Fatal(err)
				}
				registry := limits.NewRegistry(nil)
				rm, err := cfg.newResourceManager(false, newConnShares(cfg, registry,
					func(relay peer.ID) bool { return relay.String() == ownRelay }))
				if err != nil {
					t.Fatal(err)
				}
				defer rm.Close()
				for dir, want := range map[network.Direction]int{network.DirInbound: c.in, network.DirOutbound: c.out} {
					var open []network.ConnManagementScope
					for i := range 40 { // all in their handshake
						if scope, err := rm.OpenConnection(dir, false,
							ma.StringCast(fmt.Sprintf(c.addr, i+1))); err == nil {
							open = append(open, scope)
						}
					}
					for i, scope := range open {
						if err := scope.SetPeer(peer.ID(fmt.Sprint(i))); err != nil {
							t.Error(err)
						}
					}
					if len(open) != want {
						t.Errorf("%s: %d of 40, want %d", dir, len(open), want)
					}
					for _, scope := range open {
						scope.Done()
					}
				}
				for _, l := range registry.Snapshot() {
					if l.Current != 0 {
						t.Errorf("%s is still %d", l.Name, l.Current)
					}
				}
			})
		}
	}
}

// TestSharedAddressesOverlap: the forms of one IPv4 address share its places, and a /48 has those of eight /56.
func TestSharedAddressesOverlap(t *testing.T) {
	t.Parallel()
	var site []string
	for i := range 20 {
		site = append(site, fmt.Sprintf("/ip6/3fff:1:2:%x00::1/tcp/1", i))
	}
	for want, addrs := range map[int][]string{
		8: {
			"/ip4/66.0.0.1/tcp/1", "/ip6/::ffff:66.0.0.1/tcp/1", "/ip6/64:ff9b::4200:1/tcp/1",
			"/ip6/2002:4200:1::1/tcp/1",
			"/ip6zone/eth0/ip6/2002:4200:1:100::1/tcp/1",
		},
		64: site,
	} {
		s := newConnShares(DefaultConfig(), nil, nil)
		in := 0
		for range 16 {
			for _, a := range addrs {
				if _, err := s.addresses.enter(ma.StringCast(a)); err == nil {
					in++
				}
			}
		}
		if in != want {
			t.Errorf("%v: %d, want %d", addrs, in, want)
		}
	}
}

// TestRelayBounded: a relay at which the node has a reservation can invent peers, and leaves room for others.
func TestRelayBounded(t *testing.T) {
	synctest.Test(t, testRelayBounded)
}

func testRelayBounded(t *testing.T) {
	c := DefaultConfig()
	rm, err := c.newResourceManager(false, newConnShares(c, nil, func(peer.ID) bool { return true }))
	if err != nil {
		t.Fatal(err)
	}
	defer rm.Close()
	count := func(addr string, n int) (in int) {
		for i := range n {
			time.Sleep(time.Second / relayedRate)
			if scope, err := rm.OpenConnection(network.DirInbound, false,
				ma.StringCast(fmt.Sprintf(addr, i))); err == nil {
				defer scope.Done()
				in++
			}
		}
		return in
	}
	relay := "/ip4/66.0.0.1/tcp/%d/p2p/" + ownRelay + "/p2p-circuit"
	if in := count(relay, 1000); in != c.MaxConns/4 {
		t.Errorf("%d connections through one relay, want %d", in, c.MaxConns/4)
	}
	for i := range 1000 {
		_, _ = rm.OpenConnection(network.DirInbound, false, ma.StringCast(fmt.Sprintf(relay, i)))
	}
	if _, err := rm.OpenConnection(network.DirInbound, false, ma.StringCast("/ip4/8.8.8.8/tcp/1")); err != nil {
		t.Errorf("a stranger beside a full relay: %v", err)
	}
	var one []error
	for i := range 9 { // of one peer
		from := ma.StringCast("/ip4/66.0.0.1/tcp/1/p2p/" + noRelay + "/p2p-circuit")
		scope, err := rm.OpenConnection(network.DirInbound, false, from)
		if err != nil {
			t.Fatal(i, err)
		}
		one = append(one, scope.SetPeer("one"))
	}
	if one[7] != nil || one[8] == nil {
		t.Errorf("the connections of one peer through a relay: %v", one)
	}
}

// TestNewConnections: an address that opens connections without an end is let in at its rate, and the QUIC handshakes
// that it begins are for a proved address after a few. Hosts of one LAN have a rate each, and so has a relay, for
// many peers; dials have none.
func TestNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		rm, err := c.newResourceManager(false, newConnShares(c, nil, func(peer.ID) bool { return true }))
		if err != nil {
			t.Fatal(err)
		}
		defer rm.Close()
		churn := func(dir network.Direction, addr string) (in int) {
			for i := range 100 {
				if scope, err := rm.OpenConnection(dir, false, ma.StringCast(fmt.Sprintf(addr, i))); err == nil {
					scope.Done()
					in++
				}
			}
			return in
		}
		for addr, want := range map[string]int{
			"/ip4/66.0.0.1/tcp/%d": 16, "/ip6/3fff:1:2:3::%x/tcp/1": 16, "/ip6/fd00::1/tcp/%d": 16,
			"/dns4/h%d.example/tcp/1": 16, "/ip6/fd00::1:%x/tcp/1": 100, "/ip6/::1/tcp/%d": 100,
			"/ip4/66.0.0.2/tcp/%d/p2p/" + ownRelay + "/p2p-circuit": relayedBurst,
		} {
			if in := churn(network.DirInbound, addr); in != want {
				t.Errorf("%s: %d new connections, want %d", addr, in, want)
			}
			if out := churn(network.DirOutbound, addr); out != 100 {
				t.Errorf("%s: %d dials of 100", addr, out)
			}
		}
		time.Sleep(50 * time.Second)
		if in := churn(network.DirInbound, "/ip4/66.0.0.1/tcp/%d"); in != 10 {
			t.Errorf("%d new connections after 50 s, want 10", in)
		}
		other := "/ip4/66.0.0.2/tcp/%d/p2p/" + noRelay + "/p2p-circuit"
		if in := churn(network.DirInbound, other); in != relayedBurst {
			t.Errorf("%d new connections through another relay", in)
		}
		time.Sleep(5 * time.Second)
		if in := churn(network.DirInbound, other); in != 5*relayedRate {
			t.Errorf("%d new connections through a relay after 5 s", in)
		}
		for ip, want := range map[string]int{"66.0.0.1": 4, "3fff::1": 4, "fd00::1": 4, "127.0.0.1": 20, "::1": 20} {
			free := 0
			for range 20 {
				if !rm.VerifySourceAddress(&net.UDPAddr{IP: net.ParseIP(ip), Port: 1}) {
					free++
				}
			}
			if free != want {
				t.Errorf("%s: %d handshakes before it is proved, want %d", ip, free, want)
			}
		}
	})
}
