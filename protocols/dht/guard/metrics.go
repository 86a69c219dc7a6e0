package guard

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// kind is a label of quota_reject_total: the limit that refused.
type kind string

const (
	kindPeerInflight kind = "peer_inflight"
	kindPeerRate     kind = "peer_rate"
	kindInflight     kind = "inflight"
	kindBytes        kind = "bytes"
	kindRate         kind = "rate"
	kindWork         kind = "work"
	kindMessage      kind = "message" // longer than the protocol allows, or no length at all
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
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quota_reject_total", Help: "Requests of discovery refused, by the limit they ran into."}, []string{"kind"}),
		timeouts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_guard_io_timeouts_total", Help: "Routing streams reset because a request did not arrive or an answer did not leave in time."}, []string{"op"}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: "dht_guard_panics_total", Help: "Routing streams reset because their handler panicked."}),
		streams:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "dht_guard_streams", Help: "Routing streams in service, idle ones included."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.rejected, m.timeouts, m.panics, m.streams} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(k kind) { m.rejected.WithLabelValues(string(k)).Inc() }

// refuse counts a refusal and returns it.
func (m *metrics) refuse(k kind, err error) error {
	m.count(k)
	return err
}

// refuseIn is refuse for a limit of which an IP group has a part: what the group
// is refused for having its part is counted apart, as its own fault.
func (m *metrics) refuseIn(all, group kind, err error) error {
	if status.Of(err) == status.Quota {
		return m.refuse(group, err)
	}
	return m.refuse(all, err)
}
