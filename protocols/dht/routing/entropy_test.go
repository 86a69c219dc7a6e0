package routing

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

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
	table := newTable(t, numbers, deps)
	table.answer(0, "p")
	table.Seen(t.Context(), "q", 0) // it does not run
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP dht_route_refused_total Peers that answered and were not added to the routing table, or were removed, by reason.
# TYPE dht_route_refused_total counter
dht_route_refused_total{reason="diversity"} 0
dht_route_refused_total{reason="full"} 0
dht_route_refused_total{reason="no_address"} 0
# HELP dht_table_group_entropy Spread of the table's public peers over IP groups: 1 if no two share one, 0 if all do.
# TYPE dht_table_group_entropy gauge
dht_table_group_entropy 1
# HELP dht_table_peers Peers in the routing table.
# TYPE dht_table_peers gauge
dht_table_peers 1
# HELP route_dropped_total Routing table updates dropped: a bucket's queue stayed full, or the table did not run.
# TYPE route_dropped_total counter
route_dropped_total 1
`)); err != nil {
		t.Error(err)
	}
	if _, err := New(numbers, deps); err == nil {
		t.Error("registered twice")
	}
}
