package own

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

type metrics struct {
	sent     *prometheus.CounterVec
	problems *prometheus.CounterVec
	signed   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		sent: env.CounterVec("own_names_sent_total",
			"Records of own names sent to the DHT, by outcome; ok: at least one peer took it.", "outcome"),
		problems: env.CounterVec("own_names_problems_total",
			"Records of own names that are sent no more, by reason: superseded and equivocation (the key was used "+
				"elsewhere), refused.", "reason"),
		signed: env.Counter("own_names_signed_total",
			"Records of own names signed and written: published, withdrawn, or signed again."),
	}
	env.Values(m.problems, Superseded, Equivocation, Refused)
	env.MustRegister(reg, m.sent, m.problems, m.signed)
	return m
}

func (m *metrics) send(err error) { m.sent.WithLabelValues(string(status.Of(err))).Inc() }
