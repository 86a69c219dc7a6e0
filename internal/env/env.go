// Package env holds what a node gives to each of its services: a log, metrics, limits and a clock.
package env

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
)

// Env is the first field of the Deps of a service. Each part may be nil.
type Env struct {
	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: metrics are not registered. One per node
	Limits  *limits.Registry      // nil: limits work and are not listed
	// Now is the clock that dates records and decides whether they have expired. Durations and
	// intervals use time.Now. nil: time.Now.
	Now func() time.Time
}

// SetDefaults replaces a nil Log and a nil Now. The other parts work as nil.
func (e *Env) SetDefaults() {
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Now == nil {
		e.Now = time.Now
	}
}
