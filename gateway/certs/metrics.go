package certs

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// metrics are the metrics of a Source.
type metrics struct {
	certUpdates  *prometheus.CounterVec
	certNotAfter prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		certUpdates: env.CounterVec("tls_certificate_updates_total",
			"Certificates that were to replace another or none, read or got by ACME, by result: ok or failed.",
			"result"),
		certNotAfter: env.Gauge("tls_cert_not_after_seconds",
			"When the first of the certificates in use ends, in seconds since 1970; 0 while there is none."),
	}
	// the series exist from the start, so an alert sees the first event
	env.Values(m.certUpdates, "ok", "failed")
	env.MustRegister(reg, m.certUpdates, m.certNotAfter)
	return m
}
