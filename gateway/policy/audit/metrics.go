package audit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	records, suppressed, lost, failed, damaged prometheus.Counter
	writes                                     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		records: counter("audit_records_total", "Records written to the audit log."),
		suppressed: counter("audit_suppressed_total",
			"Refusals that were counted in the audit log and have no record of "+
				"their own."),
		lost: counter("audit_lost_total", "Records of outcomes and refusals that were lost while the audit log "+
			"could not be written."),
		failed: counter("audit_refused_total", "Mutations refused because they could not be recorded."),
		damaged: counter("audit_damaged_total", "Times the audit log was opened and was not as its head file says; a "+
			"new file was begun."),
		writes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "audit_writable", Help: "1 while the audit log can be written.",
		}),
	}
	m.writes.Set(1)
	if reg != nil {
		reg.MustRegister(m.records, m.suppressed, m.lost, m.failed, m.damaged, m.writes)
	}
	return m
}

func (m *metrics) writable(yes bool) {
	m.writes.Set(0)
	if yes {
		m.writes.Set(1)
	}
}
