package node

import (
	"net/netip"
	"slices"
	"testing"

	"allium/gateway/api"
)

// TestPublicAddresses: a certificate is ordered for addresses of the Internet alone, first for those that peers have
// dialled, and for that of the listener if it has one.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	r := api.Reach{Addrs: []api.ReachAddr{
		{Addr: "/ip4/8.8.4.4/tcp/4901", Via: "interface", State: api.ReachUnreachable},
		{Addr: "/ip4/127.0.0.1/tcp/4901", Via: "interface", State: api.ReachConfirmed},
		{Addr: "/ip4/192.168.1.2/tcp/4901", Via: "interface", State: api.ReachUnchecked},
		{Addr: "/ip4/100.64.0.1/tcp/4901", Via: "router", State: api.ReachUnknown},
		{Addr: "/ip4/9.9.9.9/tcp/1/p2p/12D3KooWA5geUFjtNendjSP4BWTMNHMHPUGr3q7bqSASZafV9hX7/p2p-circuit", Via: "relay",
			State: api.ReachConfirmed},
		{Addr: "/ip4/1.1.1.1/udp/4901/quic-v1", Via: "outside", State: api.ReachConfirmed},
		{Addr: "/ip4/1.1.1.1/tcp/4901", Via: "outside", State: api.ReachConfirmed},
		{Addr: "/ip6/2a00::1/tcp/4901", Via: "interface", State: api.ReachConfirmed},
		{Addr: "/ip6/2a00::2/tcp/4901", Via: "interface", State: api.ReachUnknown},
		{Addr: "/ip4/1.0.0.1/tcp/4901", Via: "outside", State: api.ReachUnknown},
		{Addr: "/dns4/node.example.org/tcp/4901", Via: "config", State: api.ReachUnknown},
		{Addr: "nonsense"},
	}}
	for listen, want := range map[string][]string{
		"[::]:443":        {"1.1.1.1", "2a00::1", "8.8.4.4"},
		":443":            {"1.1.1.1", "2a00::1", "8.8.4.4"},
		"0.0.0.0:443":     {"1.1.1.1", "8.8.4.4"},
		"8.8.8.8:443":     {"8.8.8.8"},
		"[2a00::9]:443":   {"2a00::9"},
		"127.0.0.1:443":   nil,
		"192.168.1.2:443": nil,
		"":                nil,
	} {
		var got []string
		for _, ip := range publicAddresses(listen, r) {
			got = append(got, ip.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", listen, got, want)
		}
	}
	if got := publicAddresses("[::]:443", api.Reach{}); !slices.Equal(got, []netip.Addr(nil)) {
		t.Errorf("without addresses: %v", got)
	}
}
