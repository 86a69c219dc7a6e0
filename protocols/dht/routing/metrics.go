package routing

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// refusal says why a peer that answered was not added, or was removed.
type refusal string

const (
	full      refusal = "full"       // no entry of the bucket may be replaced
	diversity refusal = "diversity"  // its group has its share of the bucket
	noAddress refusal = "no_address" // no address is known to group it by
)

// metrics holds the metrics of SPEC §10 and, under dht_, those of this package.
type metrics struct {
	dropped prometheus.Counter
	refused *prometheus.CounterVec // reason
}

func newMetrics(reg prometheus.Registerer, t *Table) (*metrics, error) {
	m := &metrics{
		dropped: env.Counter("route_dropped_total",
			"Routing table updates dropped: a bucket's queue stayed full, or the table did not run."),
		refused: env.CounterVec("dht_route_refused_total",
			"Peers that answered and were not added to the routing table, or were removed, by reason.", "reason"),
	}
	for _, r := range []refusal{full, diversity, noAddress} {
		m.refused.WithLabelValues(string(r)) // listed from the start
	}
	return m, env.Register(reg,
		m.dropped, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dht_table_peers", Help: "Peers in the routing table.",
		}, func() float64 { return float64(t.Size()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dht_table_group_entropy",
			Help: "Spread of the table's public peers over IP groups: 1 if no two share one, 0 if all do.",
		}, t.entropy),
	)
}
