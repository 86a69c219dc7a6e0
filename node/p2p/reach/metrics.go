package reach

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	relays       prometheus.Gauge
	reservations *prometheus.CounterVec // result
	direct       prometheus.Gauge
	punches      *prometheus.CounterVec // nat, transport, result
	reversals    *prometheus.CounterVec // result
	served       *prometheus.CounterVec // what
	relayedBytes prometheus.Counter
	bulk         *prometheus.CounterVec // result
}

// newMetrics makes the metrics and registers them with reg, unless that is nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		relays: env.Gauge("reach_relays", "Relays at which this node has a reservation."),
		reservations: env.CounterVec("reach_reservations_total",
			"Reservations at relays: ok, refused, failed, or short (offered for too short a time).", "result"),
		direct: env.Gauge("reach_direct", "1 if peers can dial this node without a relay, otherwise 0."),
		punches: env.CounterVec("reach_hole_punches_total",
			"Hole punches by the own NAT (endpoint_independent, endpoint_dependent, unknown), transport "+
				"and result: ok or failed.",
			"nat", "transport", "result"),
		reversals: env.CounterVec("reach_reversals_total",
			"Dials of a peer that came through a relay and has a public address: ok or failed.", "result"),
		served: env.CounterVec("reach_relay_requests_total",
			"Requests to this node's relay service: reserved, reserve_refused, connected, connect_refused.", "what"),
		relayedBytes: env.Counter("reach_relayed_bytes_total", "Bytes that this node relayed for others."),
		bulk: env.CounterVec("reach_bulk_streams_total",
			"Streams for bulk to peers with a relayed connection: direct (it became direct in time), relayed, "+
				"or refused (one circuit was used already).", "result"),
	}
	env.Values(m.reservations, "ok", "refused", "failed", "short")
	env.Values(m.reversals, "ok", "failed")
	env.Values(m.served, "reserved", "reserve_refused", "connected", "connect_refused")
	env.Values(m.bulk, "direct", "relayed", "refused")
	return m, env.Register(reg, m.relays, m.reservations, m.direct, m.punches, m.reversals, m.served, m.relayedBytes,
		m.bulk)
}
