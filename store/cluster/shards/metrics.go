package shards

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	parts   *prometheus.CounterVec
	encoded prometheus.Counter
	rebuilt prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		parts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coding_parts_total",
			Help: "Parts of shards that were needed, by source: here (the store), peer, rebuilt (from those of other " +
				"shards), failed (too few shards could be read)."}, []string{"source"}),
		encoded: prometheus.NewCounter(prometheus.CounterOpts{Name: "coding_encoded_bytes_total",
			Help: "Bytes of objects that were coded."}),
		rebuilt: prometheus.NewCounter(prometheus.CounterOpts{Name: "coding_rebuilt_bytes_total",
			Help: "Bytes of shards that were made from others."}),
	}
	for _, s := range []string{fromHere, fromPeer, fromOthers, fromNowhere} {
		m.parts.WithLabelValues(s)
	}
	reg.MustRegister(m.parts, m.encoded, m.rebuilt)
	return m
}

// The values of the label source.
const (
	fromHere    = "here"
	fromPeer    = "peer"
	fromOthers  = "rebuilt"
	fromNowhere = "failed"
)
