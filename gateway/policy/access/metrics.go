package access

import (
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
		entries: env.Gauge("listen_access_entries", "Entries of listen.allow and listen.deny in force."),
		reloads: env.CounterVec("listen_access_reload_total",
			"Times that listen.allow and listen.deny were read again: ok, or failed, which leaves those before in "+
				"force.", "result"),
		denied: env.CounterVec("peers_denied_total",
			"Connections with peers that listen.allow or listen.deny does not let in, by the step that refused "+
				"(dial, accept, handshake, open), and what such peers said (said).", "where"),
	}
	env.Values(m.reloads, "ok", "failed")
	env.Values(m.denied, whereDial, whereAccept, whereHandshake, whereOpen, whereSaid)
	return m, env.Register(reg, m.entries, m.reloads, m.denied)
}
