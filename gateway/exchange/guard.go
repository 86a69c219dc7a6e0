package exchange

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// Guard turns panics of handlers into errors, so that none of them ends the node.
type Guard struct {
	log    *slog.Logger
	panics prometheus.Counter
}

// NewGuard returns a Guard that logs panics and counts them in reg, which may be nil.
func NewGuard(log *slog.Logger, reg prometheus.Registerer) *Guard {
	g := &Guard{log: log, panics: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_panics_total", Help: "Panics in HTTP handlers, answered as internal.",
	})}
	if reg != nil {
		reg.MustRegister(g.panics)
	}
	return g
}

// Run runs f. It logs a panic with its stack and returns internal.
func (g *Guard) Run(f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		g.panics.Inc()
		g.log.Error("HTTP handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		err = status.Errorf(status.Internal, "a handler panicked: %v", v)
	}()
	return f()
}
