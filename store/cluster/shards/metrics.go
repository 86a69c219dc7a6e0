package shards

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	parts   *prometheus.CounterVec
	encoded prometheus.Counter
	rebuilt prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		parts: env.CounterVec("coding_parts_total",
			"Parts of shards that were needed, by source: here (the store), peer, rebuilt (from those of other "+
				"shards), failed (too few shards could be read).", "source"),
		encoded: env.Counter("coding_encoded_bytes_total", "Bytes of objects that were coded."),
		rebuilt: env.Counter("coding_rebuilt_bytes_total", "Bytes of shards that were made from others."),
	}
	env.Values(m.parts, fromHere, fromPeer, fromOthers, fromNowhere)
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
