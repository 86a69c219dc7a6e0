package reach

import (
	"errors"

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
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		relays: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "reach_relays", Help: "Relays at which this node has a reservation.",
		}),
		reservations: counters("reach_reservations_total",
			"Reservations at relays: ok, refused, failed, or short (offered for too short a time).", "result"),
		direct: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "reach_direct", Help: "1 if peers can dial this node without a relay, otherwise 0.",
		}),
		punches: counters("reach_hole_punches_total",
			"Hole punches by the own NAT (endpoint_independent, endpoint_dependent, unknown), transport "+
				"and result: ok or failed.",
			"nat", "transport", "result"),
		reversals: counters("reach_reversals_total",
			"Dials of a peer that came through a relay and has a public address: ok or failed.", "result"),
		served: counters("reach_relay_requests_total",
			"Requests to this node's relay service: reserved, reserve_refused, connected, connect_refused.", "what"),
		relayedBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "reach_relayed_bytes_total", Help: "Bytes that this node relayed for others.",
		}),
		bulk: counters("reach_bulk_streams_total",
			"Streams for bulk to peers with a relayed connection: direct (it became direct in time), relayed, "+
				"or refused (one circuit was used already).", "result"),
	}
	env.Values(m.reservations, "ok", "refused", "failed", "short")
	env.Values(m.reversals, "ok", "failed")
	env.Values(m.served, "reserved", "reserve_refused", "connected", "connect_refused")
	env.Values(m.bulk, "direct", "relayed", "refused")
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.relays, m.reservations, m.direct, m.punches, m.reversals, m.served, m.relayedBytes, m.bulk,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
