package records

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	onDisk   prometheus.Gauge
	failures *prometheus.CounterVec // reason
	refused  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Store) metrics {
	m := metrics{
		onDisk: env.Gauge("records_on_disk",
			"1 while the records of discovery are kept on disk, 0 while they are in RAM alone."),
		failures: env.CounterVec("records_failures_total",
			"Times the database of discovery's records failed and was replaced, by reason: damaged (set aside), "+
				"refused (the disk took no more writes).", "reason"),
		refused: env.Counter("records_refused_total",
			"Values that were not written because discovery's records had reached their bound."),
	}
	m.failures.WithLabelValues(reason(true))
	m.failures.WithLabelValues(reason(false))
	env.MustRegister(reg, m.onDisk, m.failures, m.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "records_bytes", Help: "Bytes that the database of discovery's records takes, measured every 10 s.",
	}, func() float64 {
		if db := s.cur.Load(); db != nil {
			return float64(db.size.Load())
		}
		return 0
	}))
	return m
}

func reason(damaged bool) string {
	if damaged {
		return "damaged"
	}
	return "refused"
}
