// Package env holds what a node gives to each of its services: a log, metrics, limits, the list of tasks, the cores
// and a clock.
package env

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/cores"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/internal/tracing"
)

// Env is the first field of the Deps of a service. Each part may be nil.
type Env struct {
	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: metrics are not registered. One per node
	Limits  *limits.Registry      // nil: limits work and are not listed
	Tasks   *tasks.Registry       // nil: tasks are not listed and not counted
	Cores   *cores.Pool           // all nodes of a process share it; nil: no bound
	Tracer  *tracing.Tracer       // nil: no spans are made
	// Now is the clock that dates records and decides whether they have expired. Durations and
	// intervals use time.Now. nil: time.Now.
	Now func() time.Time
	// LowPower makes a service look less often for what nobody waits for, see Every.
	LowPower bool
}

// restful is the factor of Every with LowPower.
const restful = 10

// Every returns the interval between two looks for a change that nobody waits for: usual, or ten times
// that with LowPower.
func (e *Env) Every(usual time.Duration) time.Duration {
	if e.LowPower {
		return restful * usual
	}
	return usual
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
