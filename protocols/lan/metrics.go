package lan

import (
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
		packets: env.CounterVec("lan_packets_total",
			"Packets of multicast DNS: sent, query, found (a peer to dial), connected, waits (dialed a moment "+
				"ago), other_network, elsewhere (from or about another network), other, malformed, and dropped by a "+
				"rate.", "what"),
		dials: env.CounterVec("lan_dials_total",
			"Dials of nodes found on the local network: ok or failed.", "result"),
		interfaces: env.Gauge("lan_interfaces", "Network interfaces on which nodes are looked for."),
	}
	env.Values(m.packets, "sent", "query", "found", "connected", "waits", "other_network", "elsewhere", "other",
		"malformed", "dropped")
	env.Values(m.dials, "ok", "failed")
	return m, env.Register(reg, m.packets, m.dials, m.interfaces)
}
