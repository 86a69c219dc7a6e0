package s3

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Meters bound and count requests to a bucket, and remember whether it can be reached. Every node creates them once,
// even without a bucket, so all nodes have the same limits and metrics. Methods may be called concurrently.
type Meters struct {
	gate     *limits.Gate
	ahead    *limits.Budget
	requests *prometheus.CounterVec // op, outcome
	bytes    *prometheus.CounterVec // dir
	seconds  *prometheus.HistogramVec
	retries  prometheus.Counter
	shipped  prometheus.Gauge

	trouble chan struct{}         // holds one token when Lost was called since the last receive
	away    atomic.Pointer[error] // why the bucket cannot be reached; nil while it can
}

// NewMeters registers the gate and the budget in registry, and the metrics in reg, which may
// be nil.
func NewMeters(cfg Config, registry *limits.Registry, reg prometheus.Registerer) *Meters {
	m := &Meters{
		gate: registry.NewGate(limits.Spec{
			Name: "store.bucket", Path: "store → requests to the bucket (s3 backend)", Policy: "wait, then busy",
		}, cfg.Requests, cfg.RequestsWait),
		ahead: registry.NewBudget(limits.Spec{
			Name: "store.read_ahead", Path: "bucket → readers of large objects (bytes)",
			Policy: "read without reading ahead",
		}, max(int64(cfg.ReadAhead), 1)),
		requests: env.CounterVec("store_bucket_requests_total",
			"Calls to the bucket, not counting retries, by operation (put, read, stat, list, delete) and outcome.",
			"op", "outcome"),
		bytes: env.CounterVec("store_bucket_bytes_total",
			"Bytes of calls to the bucket that succeeded: up and down.", "dir"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "store_bucket_seconds", Help: "How long calls to the bucket took, retries included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"op"}),
		retries: env.Counter("store_bucket_retries_total", "Tries of calls to the bucket after the first."),
		shipped: env.Gauge("store_shipped_seconds",
			"Last time at which all small objects were in the bucket, in seconds since 1970. 0 before the first "+
				"time, and without a bucket."),
		trouble: make(chan struct{}, 1),
	}
	away := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "store_bucket_away", Help: "1 while the bucket cannot be reached, else 0.",
	}, func() float64 {
		if m.Away() != nil {
			return 1
		}
		return 0
	})
	env.MustRegister(reg, m.requests, m.bytes, m.seconds, m.retries, m.shipped, away)
	return m
}

// Ahead returns the budget for reading ahead, in bytes.
func (m *Meters) Ahead() *limits.Budget { return m.ahead }

// Shipped records that all small objects are in the bucket now.
func (m *Meters) Shipped() { m.shipped.SetToCurrentTime() }

// Away returns why the bucket cannot be reached, or nil while it can.
func (m *Meters) Away() error {
	if p := m.away.Load(); p != nil {
		return *p
	}
	return nil
}

// Lost records that the bucket cannot be reached because of err.
func (m *Meters) Lost(err error) {
	m.away.Store(&err)
	select {
	case m.trouble <- struct{}{}:
	default:
	}
}

// Trouble returns a channel that holds one token when Lost was called since the last receive.
func (m *Meters) Trouble() <-chan struct{} { return m.trouble }

// done counts a call that began at start and ended with err, and updates Away.
func (m *Meters) done(op string, start time.Time, err error) {
	switch {
	case Away(err):
		m.Lost(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller stopped waiting
	default:
		m.away.Store(nil) // the bucket answered
	}
	m.requests.WithLabelValues(op, status.Of(err).String()).Inc()
	m.seconds.WithLabelValues(op).Observe(time.Since(start).Seconds())
}
