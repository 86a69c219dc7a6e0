package seeds

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	connected prometheus.Gauge
	dials     *prometheus.CounterVec // result: ok, failed
	fallback  *prometheus.CounterVec // result: ok, failed
	asks      *prometheus.CounterVec // result: ok, failed
	expiry    prometheus.Gauge
	storage   *prometheus.CounterVec // op: read, write
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	result := []string{"result"}
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dht_seeds_connected", Help: "Seeds connected.",
		}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dht_bootstrap_dials_total", Help: "Dials of seeds, by result.",
		}, result),
		fallback: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dht_bootstrap_fallback_dials_total",
			Help: "Dials of remembered peers because no seed answered, by result.",
		}, result),
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dht_seed_asks_total", Help: "Seeds asked for peers, by result.",
		}, result),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dht_seed_manifest_expiry_seconds",
			Help: "When the seed manifest in force expires, or has expired, in seconds since 1970; 0 without one.",
		}),
		storage: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dht_bootstrap_storage_errors_total",
			Help: "Failures of the bootstrapper to read or write its stored state, by operation.",
		}, []string{"op"}),
	}
	for _, c := range []*prometheus.CounterVec{m.dials, m.fallback, m.asks} {
		env.Values(c, "ok", "failed")
	}
	env.Values(m.storage, "read", "write")
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.connected, m.dials, m.fallback, m.asks, m.expiry, m.storage} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count counts a result: ok if err is nil, otherwise failed.
func count(c *prometheus.CounterVec, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	c.WithLabelValues(result).Inc()
}
