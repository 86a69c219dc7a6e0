package routing

import "github.com/prometheus/client_golang/prometheus"

// refusal is why a peer that answered was not taken in, or not kept.
type refusal string

const (
	full      refusal = "full"       // nobody in the bucket gives way
	diversity refusal = "diversity"  // its group has its share of the bucket
	noAddress refusal = "no_address" // there is nothing to group it by
)

// metrics of SPEC §10, and this package's own under dht_.
type metrics struct {
	dropped prometheus.Counter
	refused *prometheus.CounterVec // reason
}

func newMetrics(reg prometheus.Registerer, t *Table) (*metrics, error) {
	m := &metrics{
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "route_dropped_total", Help: "Updates of the routing table dropped because a bucket's queue stayed full, or the table did not run."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_route_refused_total", Help: "Peers that answered and were not taken into the routing table or not kept, by reason."}, []string{"reason"}),
	}
	for _, r := range []refusal{full, diversity, noAddress} {
		m.refused.WithLabelValues(string(r)) // listed from the start
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.dropped, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dht_table_peers", Help: "Peers in the routing table."}, func() float64 { return float64(t.Size()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dht_table_group_entropy", Help: "How evenly the public peers of the routing table spread over groups of addresses: 1 when no two share one, 0 when all do."}, t.entropy),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
