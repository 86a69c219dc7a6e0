package repair

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/tasks"
)

type metrics struct {
	skipped *prometheus.CounterVec
	objects *prometheus.CounterVec
	bytes   *prometheus.CounterVec
	seconds *prometheus.CounterVec
	waited  *prometheus.HistogramVec
	tasks   *tasks.Registry
}

func newMetrics(reg prometheus.Registerer) metrics {
	const kind = "kind"
	m := metrics{
		skipped: env.CounterVec("repair_skipped_total",
			"Repairs that were not begun, by kind: full (the queue), backoff (failed lately), unwanted (neither "+
				"pinned nor used lately), off.", kind, "reason"),
		objects: env.CounterVec("repair_objects_total",
			"Repairs that ended, by kind (damage: a damaged or lost object was fetched; replicate: a copy was sent "+
				"to a member; rebuild: a shard was made or sent; move: a copy was sent to a member that should have "+
				"it; trim: a copy that nobody needs was dropped) and outcome.", kind, "outcome"),
		bytes: env.CounterVec("repair_bytes_total",
			"Bytes fetched, sent or received by repairs, by kind: those of repair_objects_total, also where an add "+
				"waited for them; fetch: bytes fetched to make shards that are sent; receive: bytes that members sent "+
				"for theirs.", kind),
		seconds: env.CounterVec("repair_seconds_total", "Time spent on repairs.", kind),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "repair_wait_seconds",
			Help:    "How long repairs waited for store.repair_rate.",
			Buckets: prometheus.ExponentialBuckets(.001, 4, 8)}, []string{kind}),
	}
	// These are there from the start.
	for _, v := range []string{damage, string(Replicate), string(Rebuild), string(Move), fetch, receive} {
		m.bytes.WithLabelValues(v)
		m.waited.WithLabelValues(v)
		if v != receive && v != fetch { // which are no jobs of this node
			m.seconds.WithLabelValues(v)
		}
	}
	reg.MustRegister(m.skipped, m.objects, m.bytes, m.seconds, m.waited)
	return m
}
