package routing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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
		for _, g := range groupsOf(as) {
			got = append(got, string(g))
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", addrs, got, want)
		}
	}
	if got := groupsOf([]ma.Multiaddr{nil}); !slices.Equal(got, []Group{Unplaced}) {
		t.Errorf("an empty address: %q", got)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	var as []ma.Multiaddr
	for i := range 200 {
		as = append(as, ma.StringCast(fmt.Sprintf("/ip4/8.%d.0.1/tcp/1", i)))
	}
	if n := len(groupsOf(as)); n != maxGroups {
		t.Errorf("%d groups", n)
	}
}

// FuzzGroups: whatever a peer says its address is, it is in one group, or none.
func FuzzGroups(f *testing.F) {
	for _, a := range []string{"/ip4/8.8.8.8/tcp/1", "/ip6/::ffff:8.8.8.8/tcp/1", "/ip6zone/x/ip6/fe80::1", "/ip6zone/x/dns/example.com", "/ip4/10.0.0.1/tcp/1" + relay, "/unix/tmp/x"} {
		f.Add(ma.StringCast(a).Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := ma.NewMultiaddrBytes(in)
		if err != nil {
			return
		}
		groups := groupsOf([]ma.Multiaddr{a})
		if len(groups) > 1 || len(groups) == 1 && groups[0] == "" {
			t.Fatalf("%s: %q", a, groups)
		}
		if ip, ok := ipOf(a); len(groups) == 0 && (!ok || public(ip)) {
			t.Fatalf("%s is exempt", a)
		}
	})
}

func TestEntropy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		addrs []string // of a peer each
		want  float64
	}{
		{nil, 1},
		{[]string{"/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1"}, 1},
		{[]string{"/ip4/8.8.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1"}, 1},
		{[]string{"/ip4/8.8.0.1/tcp/1", "/ip4/8.8.0.2/tcp/1"}, 0},
		{[]string{"/ip4/8.8.0.1/tcp/1", "/ip4/8.9.0.1/tcp/1", "/ip4/8.10.0.1/tcp/1"}, 1},
		{[]string{"/ip4/8.8.0.1/tcp/1", "/ip4/8.8.0.2/tcp/1", "/ip4/8.9.0.1/tcp/1", "/ip4/8.9.0.2/tcp/1"}, 0.5},
	} {
		w := newWorld()
		table := newTable(t, Config{K: 20, GroupShare: 1, StaleAfter: 1}, w.deps())
		for i, a := range test.addrs {
			p := peer.ID(fmt.Sprint(i))
			w.place(p, a)
			table.answer(0, p)
		}
		if got := table.entropy(); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", test.addrs, got, test.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	deps := newWorld().deps()
	deps.Metrics = reg
	table := newTable(t, Default(), deps)
	table.answer(0, "p")
	table.Seen(t.Context(), "q", 0) // it does not run
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP dht_route_refused_total Peers that answered and were not taken into the routing table or not kept, by reason.
# TYPE dht_route_refused_total counter
dht_route_refused_total{reason="diversity"} 0
dht_route_refused_total{reason="full"} 0
dht_route_refused_total{reason="no_address"} 0
# HELP dht_table_group_entropy How evenly the public peers of the routing table spread over groups of addresses: 1 when no two share one, 0 when all do.
# TYPE dht_table_group_entropy gauge
dht_table_group_entropy 1
# HELP dht_table_peers Peers in the routing table.
# TYPE dht_table_peers gauge
dht_table_peers 1
# HELP route_dropped_total Updates of the routing table dropped because a bucket's queue stayed full, or the table did not run.
# TYPE route_dropped_total counter
route_dropped_total 1
`)); err != nil {
		t.Error(err)
	}
	if _, err := New(Default(), deps); err == nil {
		t.Error("registered twice")
	}
}
