package allowance

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

// kind is the label of quota_reject_total: the limit that refused.
type kind string

const (
	kindPeerInflight kind = "peer_inflight"
	kindPeerRate     kind = "peer_rate"
	kindInflight     kind = "inflight"
	kindBytes        kind = "bytes"
	kindRate         kind = "rate"
	kindWork         kind = "work"
	kindMessage      kind = "message" // too long, or without a valid length
	kindStreams      kind = "streams"

	kindGroupInflight kind = "group_inflight"
	kindGroupStreams  kind = "group_streams"
)

type metrics struct {
	rejected *prometheus.CounterVec // kind; SPEC §10
	timeouts *prometheus.CounterVec // op: read, write
	panics   prometheus.Counter
	streams  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		rejected: env.CounterVec("quota_reject_total",
			"Discovery requests refused, by the limit that refused them.", "kind"),
		timeouts: env.Timeouts(reg),
		panics:   env.Counter("dht_guard_panics_total", "Routing streams reset because their handler panicked."),
		streams:  env.Gauge("dht_guard_streams", "Routing streams being served, idle ones included."),
	}
	env.Values(m.rejected, kindPeerInflight, kindPeerRate, kindInflight, kindBytes, kindRate, kindWork, kindMessage,
		kindStreams, kindGroupInflight, kindGroupStreams)
	return m, env.Register(reg, m.rejected, m.panics, m.streams)
}

func (m *metrics) count(k kind) { m.rejected.WithLabelValues(string(k)).Inc() }

// refuse counts a refusal and returns it.
func (m *metrics) refuse(k kind, err error) error {
	m.count(k)
	return err
}

// refuseGroup counts a refusal by a limit that bounds both all peers and one IP group. A
// Quota refusal is counted for the group.
func (m *metrics) refuseGroup(all, group kind, err error) error {
	if status.Of(err) == status.Quota {
		return m.refuse(group, err)
	}
	return m.refuse(all, err)
}
