package object

import (
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
		latency: env.Share(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "object_request_latency_seconds", Help: "Time from a request to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"side", "op"})),
		outcomes: env.Share(reg, env.CounterVec("object_outcomes_total",
			"Outcomes of requests, and of each object of a get.", "side", "op", "reason")),
		bytes: env.Share(reg, env.CounterVec("object_bytes_total",
			"Bytes of verified groups and parents sent (out) and received (in).", "dir")),
		rejected: env.Share(reg, env.CounterVec("object_frame_reject_total",
			"Frames rejected on object streams, by the reason of OAP1.md §3.", "reason")),
		timeouts: env.Timeouts(reg),
		notReady: env.NotReady(reg),
		streams:  env.Share(reg, env.GaugeVec("object_streams", "Open object streams, including idle ones.", "side")),
		aborted: env.Share(reg, env.Counter("object_requests_aborted_total",
			"Requests cut off because the node stopped before they were answered.")),
	}
	for _, r := range oap.Reasons() {
		env.Values(m.rejected, r.String())
	}
	m.bytesIn, m.bytesOut = m.bytes.WithLabelValues("in"), m.bytes.WithLabelValues("out")
	m.inbound, m.outbound = m.streams.WithLabelValues("server"), m.streams.WithLabelValues("client")
	return m
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
		return 0 // cannot happen: a counter always writes its value
	}
	return int64(m.GetCounter().GetValue())
}
