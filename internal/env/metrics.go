package env

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Retries returns the counters of operations that are tried again after a pause, by operation. All services of a node
// share them.
func Retries(reg prometheus.Registerer) *prometheus.CounterVec {
	return share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "backoff_retries_total",
		Help: "Operations tried again after a pause: fetch (all providers of an object), " +
			"resolve (a lookup of providers), live_fill (a request to an origin).",
	}, []string{"op"}))
}

// Timeouts returns the counters of transfers that ended because the other side was too slow, by operation. All services
// of a node share them.
func Timeouts(reg prometheus.Registerer) *prometheus.CounterVec {
	return share(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "io_timeouts_total",
		Help: "Transfers ended because the other side made no progress, or was too slow: read and write (session " +
			"streams, see session.min_rate), fill (origins).",
	}, []string{"op"}))
}

// share registers c. If an equal collector is registered, share returns that one.
func share(reg prometheus.Registerer, c *prometheus.CounterVec) *prometheus.CounterVec {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var dup prometheus.AlreadyRegisteredError
	if errors.As(err, &dup) {
		if old, ok := dup.ExistingCollector.(*prometheus.CounterVec); ok {
			return old
		}
	}
	if err != nil {
		panic(err) // two different metrics have the same name: a bug, found at start
	}
	return c
}
