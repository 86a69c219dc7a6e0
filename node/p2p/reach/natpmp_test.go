package reach

import (
	"net/netip"
	"testing"

	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	ma "github.com/multiformats/go-multiaddr"
)

// noUPnP is the library's port mapping without a router.
type noUPnP struct{ basichost.NATManager }

func (noUPnP) GetMapping(ma.Multiaddr) ma.Multiaddr { return nil }

// TestMappings: the address of the router for each listen address that it can map, and none for others.
func TestMappings(t *testing.T) {
	t.Parallel()
	m := &portMapper{NATManager: noUPnP{}, ports: map[portOf]netip.AddrPort{
		{"tcp", 4901}: netip.MustParseAddrPort("203.0.113.7:14901"),
		{"udp", 4901}: netip.MustParseAddrPort("203.0.113.7:24901"),
	}}
	for addr, want := range map[string]string{
		"/ip4/0.0.0.0/tcp/4901":             "/ip4/203.0.113.7/tcp/14901",
		"/ip4/192.168.1.2/udp/4901/quic-v1": "/ip4/203.0.113.7/udp/24901/quic-v1",
		"/ip4/192.168.1.2/tcp/4902":         "",
		"/ip4/127.0.0.1/tcp/4901":           "",
		"/ip4/198.18.0.1/tcp/4901":          "", // no router in between
		"/ip6/::/tcp/4901":                  "",
		"/dns4/example.org/tcp/4901":        "",
		"/p2p-circuit":                      "",
	} {
		got := ""
		if at := m.GetMapping(ma.StringCast(addr)); at != nil {
			got = at.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	var many []ma.Multiaddr
	for _, port := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		many = append(many, ma.StringCast("/ip4/0.0.0.0/tcp/"+port))
	}
	if n := len(mappable(many)); n != pmpMaxPorts {
		t.Errorf("%d ports are asked for, want %d", n, pmpMaxPorts)
	}
}
