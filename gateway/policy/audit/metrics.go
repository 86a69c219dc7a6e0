package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

type metrics struct {
	records, suppressed, lost, failed, damaged prometheus.Counter
	writes                                     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		records: env.Counter("audit_records_total", "Records written to the audit log."),
		suppressed: env.Counter("audit_suppressed_total",
			"Refusals that were counted in the audit log and have no record of "+
				"their own."),
		lost: env.Counter("audit_lost_total", "Records of outcomes and refusals that were lost while the audit log "+
			"could not be written."),
		failed: env.Counter("audit_refused_total", "Mutations refused because they could not be recorded."),
		damaged: env.Counter("audit_damaged_total",
			"Times the audit log was opened and was not as its head file says; a "+
				"new file was begun."),
		writes: env.Gauge("audit_writable", "1 while the audit log can be written."),
	}
	m.writes.Set(1)
	env.MustRegister(reg, m.records, m.suppressed, m.lost, m.failed, m.damaged, m.writes)
	return m
}

func (m *metrics) writable(yes bool) {
	m.writes.Set(0)
	if yes {
		m.writes.Set(1)
	}
}
