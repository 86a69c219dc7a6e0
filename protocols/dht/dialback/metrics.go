package dialback

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

func newMetrics(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	m := env.CounterVec("dht_dialback_total",
		"Providers dialed back to see whether they can be reached, by result: reached, unreached, dropped (too "+
			"many waited).", "result")
	env.Values(m, "reached", "unreached", "dropped")
	return m, env.Register(reg, m)
}
