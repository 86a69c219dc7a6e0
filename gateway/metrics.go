package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// metrics are the gateway's, named as in SPEC §10. A route is one of the fixed
// list in router.go and api.go, never a path.
type metrics struct {
	latency  *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	rejected *prometheus.CounterVec
	refused  *prometheus.CounterVec
	panics   prometheus.Counter
	cut      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
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
			Name: "edge_rejects_total", Help: "HTTP requests refused by what they send: bodies that are too large, too slow or grow too much, and unwanted content.",
		}, []string{"reason"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_panics_total", Help: "Panics in HTTP handlers, answered as internal.",
		}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_cut_total", Help: "Answers cut off because their content failed after the first byte.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.latency, m.inflight, m.rejected, m.refused, m.panics, m.cut)
	}
	return m
}

// refuse counts a request that was refused by what it sends.
func (m *metrics) refuse(o status.Outcome) {
	switch o {
	case status.BodyCap, status.DecompressCap, status.Unsupported, status.BadDigest, status.BadRequest, status.Timeout, status.Amnesia, status.NotAllowed:
		m.refused.WithLabelValues(o.String()).Inc()
	}
}
