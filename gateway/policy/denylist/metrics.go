package denylist

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	entries prometheus.Gauge
	reloads *prometheus.CounterVec
	denied  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		entries: env.Gauge("denylist_entries", "Entries of the denylist in force."),
		reloads: env.CounterVec("denylist_reload_total",
			"Times that the denylist was read again: ok, or failed, which leaves the one before in force.", "result"),
		denied: env.CounterVec("denied_total",
			"What the denylist kept from being done, by the part of the node that asked.", "where"),
	}
	env.Values(m.reloads, "ok", "failed")
	env.MustRegister(reg, m.entries, m.reloads, m.denied)
	return m
}
