package reload

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
)

type metrics struct{ updates *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "config_update_total",
		Help: "Reloads of the configuration by what became of it: applied, unchanged, rejected, or reverted, which " +
			"counts a reload that was applied again.",
	}, []string{"result"})}
	for _, result := range []api.ReloadResult{
		api.ReloadApplied, api.ReloadUnchanged, api.ReloadRejected, api.ReloadReverted,
	} {
		m.updates.WithLabelValues(string(result))
	}
	if r != nil {
		r.MustRegister(m.updates)
	}
	return m
}
