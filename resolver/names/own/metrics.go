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
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "own_names_sent_total",
			Help: "Records of own names sent to the DHT, by outcome; ok: at least one peer took it.",
		}, []string{"outcome"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "own_names_problems_total",
			Help: "Records of own names that are sent no more, by reason: superseded and equivocation (the key " +
				"was used elsewhere), refused.",
		}, []string{"reason"}),
		signed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "own_names_signed_total",
			Help: "Records of own names signed and written: published, withdrawn, or signed again.",
		}),
	}
	env.Values(m.problems, Superseded, Equivocation, Refused)
	if reg != nil {
		reg.MustRegister(m.sent, m.problems, m.signed)
	}
	return m
}

func (m *metrics) send(err error) { m.sent.WithLabelValues(string(status.Of(err))).Inc() }
