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
		entries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "denylist_entries", Help: "Entries of the denylist in force.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "denylist_reload_total",
			Help: "Times that the denylist was read again: ok, or failed, which leaves the " +
				"one before in force.",
		}, []string{"result"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "denied_total", Help: "What the denylist kept from being done, by the part of the node that asked.",
		}, []string{"where"}),
	}
	env.Values(m.reloads, "ok", "failed")
	if reg != nil {
		reg.MustRegister(m.entries, m.reloads, m.denied)
	}
	return m
}
