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
	m := &metrics{
		connected: env.Gauge("dht_seeds_connected", "Seeds connected."),
		dials:     env.CounterVec("dht_bootstrap_dials_total", "Dials of seeds, by result.", "result"),
		fallback: env.CounterVec("dht_bootstrap_fallback_dials_total",
			"Dials of remembered peers because no seed answered, by result.", "result"),
		asks: env.CounterVec("dht_seed_asks_total", "Seeds asked for peers, by result.", "result"),
		expiry: env.Gauge("dht_seed_manifest_expiry_seconds",
			"When the seed manifest in force expires, or has expired, in seconds since 1970; 0 without one."),
		storage: env.CounterVec("dht_bootstrap_storage_errors_total",
			"Failures of the bootstrapper to read or write its stored state, by operation.", "op"),
	}
	for _, c := range []*prometheus.CounterVec{m.dials, m.fallback, m.asks} {
		env.Values(c, "ok", "failed")
	}
	env.Values(m.storage, "read", "write")
	return m, env.Register(reg, m.connected, m.dials, m.fallback, m.asks, m.expiry, m.storage)
}

// count counts a result: ok if err is nil, otherwise failed.
func count(c *prometheus.CounterVec, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	c.WithLabelValues(result).Inc()
}
