package exchange

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/guard"
)

// Guard turns panics of handlers into errors, so that none of them ends the node.
type Guard struct {
	guard guard.Guard
}

// NewGuard returns a Guard that logs panics and counts them in reg, which may be nil.
func NewGuard(log *slog.Logger, reg prometheus.Registerer) *Guard {
	panics := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_panics_total", Help: "Panics in HTTP handlers, answered as internal.",
	})
	if reg != nil {
		reg.MustRegister(panics)
	}
	return &Guard{guard.Guard{Log: log, Panics: panics}}
}

// Run runs f. It logs a panic with its stack and returns internal.
func (g *Guard) Run(f func() error) error { return g.guard.Run("a handler panicked", f, nil) }
