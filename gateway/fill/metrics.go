package fill

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// metrics are named as in SPEC §10.
type metrics struct {
	hits, misses      prometheus.Counter
	stale, expired    prometheus.Counter
	running           prometheus.Gauge
	seconds           prometheus.Histogram
	retries, timeouts prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		hits:   env.Counter("edge_cache_hits_total", "Requests for assets that were answered from the store."),
		misses: env.Counter("edge_cache_misses_total", "Requests for assets that needed an origin."),
		stale: env.Counter("edge_stale_total",
			"Requests for assets that got a stale copy, because the origin failed or was slow."),
		expired: env.Counter("edge_expired_total",
			"Fills that did not begin, because they waited too long for a worker."),
		running: env.Gauge("edge_fills", "Fills that run."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edge_fill_seconds", Help: "Time of a fill from the first request to an origin to its end.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}),
		retries:  env.Retries(reg).WithLabelValues(env.RetryFill),
		timeouts: env.Timeouts(reg).WithLabelValues(env.TimeoutFill),
	}
	env.MustRegister(reg, m.hits, m.misses, m.stale, m.expired, m.running, m.seconds)
	return m
}
