package access

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// Where a peer was denied, the label of peers_denied_total.
const (
	whereDial      = "dial"
	whereAccept    = "accept"
	whereHandshake = "handshake"
	whereOpen      = "open" // the connection was open when the list changed
	whereSaid      = "said" // a record, a hint or gossip
)

type metrics struct {
	entries prometheus.Gauge
	reloads *prometheus.CounterVec // result
	denied  *prometheus.CounterVec // where
}

// newMetrics makes the metrics and registers them with reg, unless that is nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		entries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "listen_access_entries", Help: "Entries of listen.allow and listen.deny in force.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "listen_access_reload_total",
			Help: "Times that listen.allow and listen.deny were read again: ok, or failed, which leaves those " +
				"before in force.",
		}, []string{"result"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "peers_denied_total",
			Help: "Connections with peers that listen.allow or listen.deny does not let in, by the step that refused " +
				"(dial, accept, handshake, open), and what such peers said (said).",
		}, []string{"where"}),
	}
	env.Values(m.reloads, "ok", "failed")
	for _, where := range []string{whereDial, whereAccept, whereHandshake, whereOpen, whereSaid} {
		m.denied.WithLabelValues(where)
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(reg.Register(m.entries), reg.Register(m.reloads), reg.Register(m.denied))
}
