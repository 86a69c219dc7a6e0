package session

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/oap"
)

// metrics has the metrics of SPEC §10. The registry of limits counts busy answers.
type metrics struct {
	opened       prometheus.Counter
	closed       prometheus.Counter
	handshakes   prometheus.Counter
	backpressure prometheus.Counter
	panics       prometheus.Counter
	supplanted   prometheus.Counter
	deaths       prometheus.Counter
	expired      prometheus.Counter
	delayed      prometheus.Counter
	timeouts     *prometheus.CounterVec // op
	rejected     *prometheus.CounterVec // reason of OAP1 §3
	notReady     *prometheus.CounterVec // phase
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		opened: env.Counter("session_open_total", "Sessions whose HELLO succeeded."),
		closed: env.Counter("session_close_total", "Sessions that ended after their HELLO succeeded."),
		handshakes: env.Counter("handshake_timeouts_total",
			"Session streams reset because HELLO did not come in time."),
		backpressure: env.Counter("backpressure_events_total",
			"Waits for an egress or in-flight permit that ended without one."),
		panics: env.Counter("session_handler_panics_total",
			"Panics of request handlers, readers and writers; each ends one request or one session."),
		supplanted: env.Counter("session_supplanted_total",
			"Sessions reset because the peer opened another over the same connection, or more than peer_sessions."),
		deaths: env.Counter("session_worker_deaths_total",
			"Session workers that died; each answered its request with internal and was replaced."),
		expired: env.Counter("session_requests_expired_total",
			"Requests not handled because their deadline passed while they waited."),
		delayed: env.Counter("session_paced_frames_total",
			"Frames without an answer (events, ACKs, answers without a call) beyond session.control_rate; "+
				"the session was not read until the rate allowed them."),
		timeouts: env.Timeouts(reg),
		notReady: env.NotReady(reg),
		rejected: env.CounterVec("frame_reject_total",
			"Frames rejected on session streams, by the reason of OAP1 section 3.", "reason"),
	}
	for _, r := range oap.Reasons() {
		env.Values(m.rejected, r.String())
	}
	return m, env.Register(reg, m.opened, m.closed, m.handshakes, m.backpressure, m.panics, m.supplanted, m.deaths,
		m.expired, m.delayed, m.rejected)
}

// reject counts err if it is the refusal of a frame, and returns it.
func (m *metrics) reject(err error) error {
	if err == nil {
		return nil
	}
	var de *oap.DecodeError
	if errors.As(err, &de) {
		m.rejected.WithLabelValues(de.Reason.String()).Inc()
	}
	return err
}
