package repair

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	skipped *prometheus.CounterVec
	objects *prometheus.CounterVec
	bytes   prometheus.Counter
	seconds prometheus.Counter
	waited  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "repair_skipped_total",
			Help: "Damaged objects that were not repaired: full (the queue), backoff (failed lately), unwanted (neither " +
				"pinned nor used lately), off."}, []string{"reason"}),
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "repair_objects_total",
			Help: "Repairs of damaged objects that ended, by outcome."}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "repair_bytes_total",
			Help: "Bytes fetched to repair damaged objects."}),
		seconds: prometheus.NewCounter(prometheus.CounterOpts{Name: "repair_seconds_total",
			Help: "Time spent on repairs of damaged objects."}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "repair_wait_seconds",
			Help: "How long repairs waited for store.repair_rate.", Buckets: prometheus.ExponentialBuckets(.001, 4, 8)}),
	}
	reg.MustRegister(m.skipped, m.objects, m.bytes, m.seconds, m.waited)
	return m
}
