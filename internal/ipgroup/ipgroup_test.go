package ipgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

const relay = "/p2p/12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5/p2p-circuit"

func TestGroups(t *testing.T) {
	t.Parallel()
	for addrs, want := range map[string]string{
		"":                           "",
		"/ip4/8.8.4.4/tcp/1":         "8.8.0.0/16",
		"/ip4/8.8.8.8/udp/1/quic-v1": "8.8.0.0/16",
		"/ip4/9.9.9.9/tcp/1 /ip4/8.8.8.8/tcp/1 /ip4/9.9.1.1/tcp/2": "8.8.0.0/16 9.9.0.0/16",

		// By autonomous system where it is known, else /32.
		"/ip6/2001:4860:4860::8888/udp/1/quic-v1": "AS15169",
		"/ip6/2001:4860:4860::8844/tcp/1":         "AS15169",
		"/ip6/3fff:ffff:1::1/tcp/1":               "3fff:ffff::/32",
		"/ip6/3fff:ffff:2::1/tcp/1":               "3fff:ffff::/32",
		"/ip6/3fff:fffe::1/tcp/1":                 "3fff:fffe::/32",

		// IPv4 in IPv6 clothes.
		"/ip6/::ffff:8.8.8.8/tcp/1":   "8.8.0.0/16",
		"/ip6/64:ff9b::808:808/tcp/1": "8.8.0.0/16",
		"/ip6/::ffff:10.0.0.1/tcp/1":  "",
		"/ip6/2002:808:808::1/tcp/1":  "8.8.0.0/16",
		"/ip6/64:ff9b::7f00:1/tcp/1":  "64:ff9b::/32", // not exempt as 127.0.0.1 is

		// Of local networks.
		"/ip4/127.0.0.1/tcp/1":                   "",
		"/ip4/10.1.2.3/tcp/1":                    "",
		"/ip4/172.17.0.2/tcp/1":                  "",
		"/ip4/192.168.1.1/tcp/1":                 "",
		"/ip4/169.254.1.1/tcp/1":                 "",
		"/ip4/100.64.0.1/tcp/1":                  "",
		"/ip4/100.127.255.255/tcp/1":             "",
		"/ip4/100.128.0.1/tcp/1":                 "100.128.0.0/16",
		"/ip4/203.0.113.1/tcp/1":                 "",
		"/ip4/0.0.0.0/tcp/1":                     "",
		"/ip4/224.0.0.1/udp/1":                   "",
		"/ip6/::1/tcp/1":                         "",
		"/ip6/fd00::1/tcp/1":                     "",
		"/ip6/fe80::1/tcp/1":                     "",
		"/ip6zone/eth0/ip6/fe80::1/tcp/1":        "",
		"/ip6/2001:db8::1/tcp/1":                 "",
		"/ip4/10.1.2.3/tcp/1 /ip4/8.8.8.8/tcp/1": "8.8.0.0/16",

		// Relays.
		"/ip4/8.8.8.8/tcp/1" + relay:  "8.8.0.0/16",
		"/ip4/10.0.0.1/tcp/1" + relay: "unplaced",
		relay:                         "unplaced",
		"/ip4/10.0.0.1/tcp/1" + relay + " /ip4/9.9.9.9/tcp/1": "9.9.0.0/16",
		"/ip4/10.0.0.1/tcp/1 " + relay:                        "unplaced",

		// Names.
		"/dns4/example.com/tcp/1":                   "unplaced",
		"/dnsaddr/example.com /ip4/8.8.8.8/tcp/1":   "8.8.0.0/16",
		"/dns/a.example/tcp/1 /dns/b.example/tcp/1": "unplaced",
	} {
		var as []ma.Multiaddr
		for _, a := range strings.Fields(addrs) {
			as = append(as, ma.StringCast(a))
		}
		var got []string
		for _, g := range All(as) {
			got = append(got, string(g))
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", addrs, got, want)
		}
	}
	if got := All([]ma.Multiaddr{nil}); !slices.Equal(got, []Group{Unplaced}) {
		t.Errorf("an empty address: %q", got)
	}
}

// TestAddress: a customer's IPv6 addresses are one, and those of a LAN are not.
func TestAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"/ip4/8.8.4.4/tcp/1": "8.8.4.4/32", "/ip4/10.0.0.1/udp/1": "10.0.0.1/32",
		"/ip6/::ffff:8.8.4.4/tcp/1":   "8.8.4.4/32",
		"/ip6/64:ff9b::808:404/tcp/1": "8.8.4.4/32", "/ip6/2002:808:404:1::1/tcp/1": "8.8.4.4/32",
		"/ip6/2002:a00:1:1::1/tcp/1": "2002:a00:1::/56", "/ip6/3fff:1:2:345::6/tcp/1": "3fff:1:2:300::/56",
		"/ip6/fd00:1::2/tcp/1": "fd00:1::2/128", "/ip6zone/eth0/ip6/fe80::2/tcp/1": "fe80::2/128",
		"/ip6/::1/tcp/1":          "::1/128",
		"/dns4/example.com/tcp/1": "", relay: "",
	} {
		got, ok := Address(ma.StringCast(addr))
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s: %s, want %q", addr, got, want)
		}
	}
	if _, ok := Address(nil); ok {
		t.Error("no address is one")
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	var as []ma.Multiaddr
	for i := range 200 {
		as = append(as, ma.StringCast(fmt.Sprintf("/ip4/8.%d.0.1/tcp/1", i)))
	}
	if n := len(All(as)); n != maxGroups {
		t.Errorf("%d groups", n)
	}
}

// FuzzGroups: whatever a peer says its address is, it is in one group, or none.
func FuzzGroups(f *testing.F) {
	for _, a := range []string{"/ip4/8.8.8.8/tcp/1", "/ip6/::ffff:8.8.8.8/tcp/1", "/ip6zone/x/ip6/fe80::1",
		"/ip6zone/x/dns/example.com", "/ip4/10.0.0.1/tcp/1" + relay, "/unix/tmp/x"} {
		f.Add(ma.StringCast(a).Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := ma.NewMultiaddrBytes(in)
		if err != nil {
			return
		}
		groups := All([]ma.Multiaddr{a})
		if len(groups) > 1 || len(groups) == 1 && groups[0] == "" {
			t.Fatalf("%s: %q", a, groups)
		}
		if ip, ok := IP(a); len(groups) == 0 && (!ok || Public(ip)) {
			t.Fatalf("%s is exempt", a)
		}
	})
}

func TestKey(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"/ip4/8.8.4.4/tcp/1":         "8.8.0.0/16",
		"/ip4/8.8.8.8/tcp/1" + relay: "8.8.0.0/16", // the relay's
		relay:                        "unplaced",
		"/ip4/127.0.0.1/tcp/1":       "peer p",
	} {
		if got := Key(ma.StringCast(addr), "p"); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}
