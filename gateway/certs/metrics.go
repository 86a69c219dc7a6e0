package certs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// metrics are the metrics of all sources of a listener.
type metrics struct {
	certUpdates  *prometheus.CounterVec
	certNotAfter prometheus.Gauge
	demands      *prometheus.CounterVec

	mu   sync.Mutex           // guards ends; lock: leaf
	ends map[string]time.Time // of each certificate in use, by its file or its name
}

// The results of handshakes for a domain whose first certificate is not there.
const (
	demandMet     = "met"     // it came in time
	demandLate    = "late"    // it did not
	demandRefused = "refused" // it is not ordered now: it failed before, or a bound is reached
	demandUnknown = "unknown" // the node serves no such domain
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		certUpdates: env.CounterVec("tls_certificate_updates_total",
			"Certificates that were to replace another or none, read or got by ACME, by result: ok or failed.",
			"result"),
		certNotAfter: env.Gauge("tls_cert_not_after_seconds",
			"When the first of the certificates in use ends, in seconds since 1970; 0 while there is none."),
		demands: env.CounterVec("tls_on_demand_total",
			"Handshakes for a domain without a certificate yet, with gateway.tls.acme_on_demand, by result: met "+
				"(it came within seconds), late (not yet), refused (it failed before, or a bound is reached) or "+
				"unknown (the node serves no such domain).", "result"),
		ends: map[string]time.Time{},
	}
	// the series exist from the start, so an alert sees the first event
	env.Values(m.certUpdates, "ok", "failed")
	env.Values(m.demands, demandMet, demandLate, demandRefused, demandUnknown)
	env.MustRegister(reg, m.certUpdates, m.certNotAfter, m.demands)
	return m
}

// inUse records that a certificate is in use, and when it ends.
func (m *metrics) inUse(what string, notAfter time.Time) { m.set(what, notAfter) }

// gone records that a certificate is not in use any more.
func (m *metrics) gone(what string) { m.set(what, time.Time{}) }

func (m *metrics) set(what string, notAfter time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if notAfter.IsZero() {
		delete(m.ends, what)
	} else {
		m.ends[what] = notAfter
	}
	first := time.Time{}
	for _, end := range m.ends {
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	if first.IsZero() {
		m.certNotAfter.Set(0)
		return
	}
	m.certNotAfter.Set(float64(first.Unix()))
}
