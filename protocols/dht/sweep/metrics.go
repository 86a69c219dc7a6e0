package sweep

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// metrics holds the metrics of SPEC §5.
type metrics struct {
	republish *prometheus.CounterVec // result
}

func newMetrics(reg prometheus.Registerer, lag func() time.Duration) (*metrics, error) {
	m := &metrics{
		republish: env.CounterVec("provider_republish_total",
			"Provider records sent by the sweep, one for each object and peer: ok if the peer acknowledged it.",
			"result"),
	}
	env.Values(m.republish, "ok", "failed")
	if reg == nil {
		return m, nil
	}
	late := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "provide_lag_seconds",
		Help: "How late the oldest provider record is whose republishing is due; 0 if none is.",
	}, func() float64 { return lag().Seconds() })
	for _, c := range []prometheus.Collector{m.republish, late} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
