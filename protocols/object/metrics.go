package object

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"allium/internal/env"
	"allium/protocols/oap"
)

// metrics has the metrics of a server and a client. Both share them on one
// registerer.
type metrics struct {
	latency  *prometheus.HistogramVec // side, op
	outcomes *prometheus.CounterVec   // side, op, reason
	bytes    *prometheus.CounterVec   // dir
	rejected *prometheus.CounterVec   // reason of OAP1.md §3
	timeouts *prometheus.CounterVec   // op
	notReady *prometheus.CounterVec   // phase
	streams  *prometheus.GaugeVec     // side
	aborted  prometheus.Counter

	bytesIn, bytesOut prometheus.Counter
	inbound, outbound prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		latency: share(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "object_request_latency_seconds", Help: "Time from a request to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"side", "op"})),
		outcomes: share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "object_outcomes_total", Help: "Outcomes of requests, and of each object of a get.",
		}, []string{"side", "op", "reason"})),
		bytes: share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "object_bytes_total", Help: "Bytes of verified groups and parents sent (out) and received (in).",
		}, []string{"dir"})),
		rejected: share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "object_frame_reject_total", Help: "Frames rejected on object streams, by the reason of OAP1.md §3.",
		}, []string{"reason"})),
		timeouts: env.Timeouts(reg),
		notReady: env.NotReady(reg),
		streams: share(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "object_streams", Help: "Open object streams, including idle ones.",
		}, []string{"side"})),
		aborted: share(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "object_requests_aborted_total",
			Help: "Requests cut off because the node stopped before they were answered.",
		})),
	}
	for _, r := range oap.Reasons() {
		env.Values(m.rejected, r.String())
	}
	m.bytesIn, m.bytesOut = m.bytes.WithLabelValues("in"), m.bytes.WithLabelValues("out")
	m.inbound, m.outbound = m.streams.WithLabelValues("server"), m.streams.WithLabelValues("client")
	return m
}

// share registers c. If an equal collector is registered, share returns that one, so
// that the server and the client of a node share their metrics.
func share[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var dup prometheus.AlreadyRegisteredError
	if errors.As(err, &dup) {
		if old, ok := dup.ExistingCollector.(C); ok {
			return old
		}
	}
	if err != nil {
		panic(err) // two different metrics have the same name: a bug, found at start
	}
	return c
}

// Traffic returns how many bytes of verified groups and parents were received and sent since the start, by the client
// and the servers that share its registry.
func (c *Client) Traffic() (in, out int64) {
	return countOf(c.metrics.bytesIn), countOf(c.metrics.bytesOut)
}

// countOf returns the value of a counter of bytes.
func countOf(c prometheus.Counter) int64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return 0 // cannot happen: a counter without labels of its own always writes its value
	}
	return int64(m.GetCounter().GetValue())
}
