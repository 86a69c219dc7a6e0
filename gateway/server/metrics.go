package server

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

// metrics are the gateway's metrics, named as in SPEC §10. The label route has the names of the
// route table, never paths.
type metrics struct {
	latency  *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	rejected *prometheus.CounterVec
	refused  *prometheus.CounterVec
	timeouts *prometheus.CounterVec
	notReady *prometheus.CounterVec
	cut      prometheus.Counter

	handshakes  *prometheus.CounterVec
	http2Errors *prometheus.CounterVec

	routes map[string]*routeMetrics // by name; read-only
}

// routeMetrics are the metrics of one route. They are looked up once, because WithLabelValues
// costs more than all other counting of a request.
type routeMetrics struct {
	latency  prometheus.Observer
	inflight prometheus.Gauge
	made     atomic.Pointer[routeMetrics] // the metrics with their series, after the first request
}

// noRoute is the label of requests for unknown pages.
const noRoute = "none"

// route returns the metrics of a route. A route without requests has no series.
func (m *metrics) route(name string) *routeMetrics {
	r := m.routes[name]
	if r == nil {
		r = m.routes[noRoute]
		name = noRoute
	}
	if made := r.made.Load(); made != nil {
		return made
	}
	made := &routeMetrics{latency: m.latency.WithLabelValues(name), inflight: m.inflight.WithLabelValues(name)}
	r.made.Store(made) // concurrent callers store equal values
	return made
}

func newMetrics(reg prometheus.Registerer, routers []*router) *metrics {
	m := &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "request_latency_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"route"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "inflight_requests", Help: "HTTP requests being answered.",
		}, []string{"route"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rejected_total", Help: "HTTP requests and connections refused before any work was done for them.",
		}, []string{"reason"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edge_rejects_total",
			Help: "Requests that the public listener refused, by the reason that the client was told.",
		}, []string{"reason"}),
		timeouts: env.Timeouts(reg),
		notReady: env.NotReady(reg),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_cut_total",
			Help: "Answers cut off because their content failed after the first byte.",
		}),

		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tls_handshakes_total",
			Help: "TLS handshakes of the public listener, by result: ok, failed or timeout.",
		}, []string{"result"}),
		http2Errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http2_errors_total",
			Help: "HTTP/2 streams and connections ended for an error, by its kind as Go names it.",
		}, []string{"kind"}),
	}
	env.Values(m.handshakes, "ok", "failed", "timeout")
	// Beside these, the reasons are outcomes.
	env.Values(m.rejected, "peer_uid", "conns", "conns_per_ip", "slow_evicted", "idle_evicted", "transfer_evicted")
	for _, o := range refusals {
		m.refused.WithLabelValues(o.String()) // so that an alert sees the first one
	}
	m.routes = map[string]*routeMetrics{noRoute: {}}
	for _, rt := range routers {
		for _, p := range rt.pages() {
			m.routes[p.route.name] = &routeMetrics{}
		}
	}
	if reg != nil {
		reg.MustRegister(m.latency, m.inflight, m.rejected, m.refused, m.cut,
			m.handshakes, m.http2Errors)
	}
	return m
}

// refusals are the reasons for which the public listener refuses requests.
var refusals = []status.Outcome{
	status.Amnesia, status.NotAllowed, status.Denied, status.DecompressCap, status.BodyCap, status.Timeout,
	status.RateLimit, status.BadRange, status.EtagInvalid, status.Busy, status.Unsupported, status.BadDigest,
	status.BadRequest,
}

// writeTimedOut counts a client that took nothing of an answer for too long.
func (m *metrics) writeTimedOut() { m.timeouts.WithLabelValues(env.TimeoutGatewayWrite).Inc() }

// refuse counts a request that was refused.
func (m *metrics) refuse(o status.Outcome) {
	switch o {
	case status.Draining:
		m.notReady.WithLabelValues(env.PhaseDrain).Inc()
	case status.NotReady, status.NoBootstrap, status.TransportDown: // the gateway is the last to start
		m.notReady.WithLabelValues(env.PhaseRun).Inc()
	}
	if slices.Contains(refusals, o) {
		m.refused.WithLabelValues(o.String()).Inc()
	}
}
