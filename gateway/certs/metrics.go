package certs

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a Source.
type metrics struct {
	certUpdates  *prometheus.CounterVec
	certNotAfter prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		certUpdates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tls_certificate_updates_total",
			Help: "Certificates that were to replace another or none, read or got by " +
				"ACME, by result: ok or failed.",
		}, []string{"result"}),
		certNotAfter: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tls_cert_not_after_seconds",
			Help: "When the first of the certificates in use ends, in seconds since " +
				"1970; 0 while there is none.",
		}),
	}
	// the series exist from the start, so an alert sees the first event
	for _, result := range []string{"ok", "failed"} {
		m.certUpdates.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(m.certUpdates, m.certNotAfter)
	}
	return m
}
