// Package guard ends the work that panics, not the node (SPEC §10).
package guard

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// Guard says where panics are reported. The zero Guard works.
type Guard struct {
	Log    *slog.Logger       // gets the panic with its stack; nil: the error holds the stack
	Panics prometheus.Counter // nil: panics are not counted
	Err    error              // returned after a panic; nil: internal with what panicked and why
}

// Run calls f and returns its error. If f panics, Run logs what panicked with the attributes that attrs returns, counts
// the panic and returns an error. attrs may be nil. It is a func, so that work that ends well allocates nothing.
func (g Guard) Run(what string, f func() error, attrs func() []any) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if g.Panics != nil {
			g.Panics.Inc()
		}
		reason := fmt.Sprint(p)
		if stack := string(debug.Stack()); g.Log != nil {
			said := []any{"panic", reason, "stack", stack}
			if attrs != nil {
				said = append(attrs(), said...)
			}
			g.Log.Error(what, said...) //nolint:sloglint // callers pass constants
		} else {
			reason += "\n" + stack
		}
		if err = g.Err; err == nil {
			err = status.Errorf(status.Internal, "%s: %s", what, reason)
		}
	}()
	return f()
}

// Run calls f and returns its error. If f panics, Run returns internal with the stack.
func Run(f func() error) error { return Guard{}.Run("panic", f, nil) }
