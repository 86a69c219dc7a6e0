package resolver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// metrics are the resolver's own metrics, named as in SPEC §10. Each sub-package
// has its own.
type metrics struct {
	latency  *prometheus.HistogramVec // type
	received *prometheus.CounterVec   // type
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "resolve_latency_seconds",
			Help: "Time until the first group of an object can be read (open_local, open_peer), " +
				"an object or a directory is stored (fetch, tree), or a lookup ends (providers).",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"type"}),
		received: env.CounterVec("resolver_received_bytes_total",
			"Verified bytes received from peers, by the kind of request; extra counts bytes that were already "+
				"here.", "type"),
	}
	env.MustRegister(reg, m.latency, m.received)
	return m
}

// observe records the time since start for work of a kind.
func (m *metrics) observe(kind string, start time.Time) {
	m.latency.WithLabelValues(kind).Observe(time.Since(start).Seconds())
}
