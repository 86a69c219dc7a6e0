package dialback

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

func newMetrics(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dht_dialback_total",
		Help: "Providers dialed back to see whether they can be reached, " +
			"by result: reached, unreached, dropped (too many waited).",
	}, []string{"result"})
	env.Values(m, "reached", "unreached", "dropped")
	if reg == nil {
		return m, nil
	}
	return m, reg.Register(m)
}
