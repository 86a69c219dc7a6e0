package lan

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	packets    *prometheus.CounterVec // what
	dials      *prometheus.CounterVec // result
	interfaces prometheus.Gauge
}

// newMetrics makes the metrics and registers them with reg, unless that is nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		packets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lan_packets_total",
			Help: "Packets of multicast DNS: sent, query, found (a peer to dial), connected, waits (dialed a " +
				"moment ago), other_network, elsewhere (from or about another network), other, malformed, and " +
				"dropped by a rate.",
		}, []string{"what"}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lan_dials_total", Help: "Dials of nodes found on the local network: ok or failed.",
		}, []string{"result"}),
		interfaces: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lan_interfaces", Help: "Network interfaces on which nodes are looked for.",
		}),
	}
	env.Values(m.packets, "sent", "query", "found", "connected", "waits", "other_network", "elsewhere", "other",
		"malformed", "dropped")
	env.Values(m.dials, "ok", "failed")
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(reg.Register(m.packets), reg.Register(m.dials), reg.Register(m.interfaces))
}
