package env

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Retries returns the counters of operations that are tried again after a pause, by operation. All services of a node
// share them.
func Retries(reg prometheus.Registerer) *prometheus.CounterVec {
	return Values(Share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "backoff_retries_total",
		Help: "Operations tried again after a pause: fetch (all providers of an object), " +
			"resolve (a lookup of providers), live_fill (a request to an origin).",
	}, []string{"op"})), RetryFetch, RetryResolve, RetryFill)
}

// The operations of [Retries].
const (
	RetryFetch   = "fetch"
	RetryResolve = "resolve"
	RetryFill    = "live_fill"
)

// Timeouts returns the counters of transfers that ended because the other side was too slow, by operation. All services
// of a node share them.
func Timeouts(reg prometheus.Registerer) *prometheus.CounterVec {
	return Values(Share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "io_timeouts_total",
		Help: "Transfers ended because the other side made no progress, or was too slow: session_read and " +
			"session_write (see session.min_rate), object_read (a peer's request), object_write (our answer), " +
			"object_ask (our request, and its answer; see object.min_rate), dht_read and dht_write (routing " +
			"streams), gateway_read (the body of a client's request), gateway_write (our answer), fill (origins).",
	}, []string{"op"})), TimeoutSessionRead, TimeoutSessionWrite, TimeoutObjectRead, TimeoutObjectWrite,
		TimeoutObjectAsk, TimeoutDHTRead, TimeoutDHTWrite, TimeoutGatewayRead, TimeoutGatewayWrite, TimeoutFill)
}

// The operations of [Timeouts].
const (
	TimeoutSessionRead  = "session_read"
	TimeoutSessionWrite = "session_write"
	TimeoutObjectRead   = "object_read"
	TimeoutObjectWrite  = "object_write"
	TimeoutObjectAsk    = "object_ask"
	TimeoutDHTRead      = "dht_read"
	TimeoutDHTWrite     = "dht_write"
	TimeoutGatewayRead  = "gateway_read"
	TimeoutGatewayWrite = "gateway_write"
	TimeoutFill         = "fill"
)

// NotReady returns the counters of requests that were refused because the node was not ready, by the phase of its life.
// All services of a node share them.
func NotReady(reg prometheus.Registerer) *prometheus.CounterVec {
	return Values(Share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "not_ready_total",
		Help: "Requests of clients and peers refused because the node was not ready, by phase: start (a part that " +
			"they need has not started), run (what they need is away, such as seeds), drain (the node stops).",
	}, []string{"phase"})), PhaseStart, PhaseRun, PhaseDrain)
}

// The phases of [NotReady].
const (
	PhaseStart = "start"
	PhaseRun   = "run"
	PhaseDrain = "drain"
)

// Values makes the counters of all values of the one label of c, so that an alert sees the first event, and returns c.
func Values[V ~string](c *prometheus.CounterVec, values ...V) *prometheus.CounterVec {
	for _, v := range values {
		c.WithLabelValues(string(v))
	}
	return c
}

// Register registers collectors with reg, unless that is nil. The error says which it refused.
func Register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	var errs []error
	for _, c := range all {
		if reg != nil {
			errs = append(errs, reg.Register(c))
		}
	}
	return errors.Join(errs...)
}

// MustRegister registers collectors with reg, unless that is nil. It panics if reg refuses one: a bug, found at start.
func MustRegister(reg prometheus.Registerer, all ...prometheus.Collector) {
	if err := Register(reg, all...); err != nil {
		panic(err)
	}
}

// Share registers c and returns it, or the equal collector that is registered already: services of one node then
// share it. reg may be nil.
func Share[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := Register(reg, c)
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

// Counter returns the counter of a name, which help documents in the reference.
func Counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// CounterVec returns the counters of a name with labels.
func CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge returns the gauge of a name, which help documents in the reference.
func Gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// GaugeVec returns the gauges of a name with labels.
func GaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}
