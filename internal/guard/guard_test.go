package guard_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/guard"
	"allium/protocols/status"
)

// TestRun checks what is returned, logged and counted for work that returns, fails and panics.
func TestRun(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	panics := prometheus.NewCounter(prometheus.CounterOpts{Name: "panics"})
	g := guard.Guard{Log: slog.New(slog.NewTextHandler(&log, nil)), Panics: panics}
	failure := errors.New("failed")
	if err := g.Run("work panicked", func() error { return nil }, nil); err != nil {
		t.Error(err)
	}
	if err := g.Run("work panicked", func() error { return failure }, nil); !errors.Is(err, failure) {
		t.Error(err)
	}
	if log.Len() != 0 || testutil.ToFloat64(panics) != 0 {
		t.Errorf("without a panic: %s", &log)
	}
	err := g.Run("work panicked", func() error { panic("boom") }, func() []any { return []any{"kind", "copy"} })
	if status.Of(err) != status.Internal || err.Error() != "work panicked: boom" || testutil.ToFloat64(panics) != 1 {
		t.Errorf("a panic: %v", err)
	}
	for _, part := range []string{`msg="work panicked" kind=copy panic=boom stack=`, "guard_test.go"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %s: %s", part, &log)
		}
	}
	g.Err = failure
	if err := g.Run("work panicked", func() error { panic("boom") }, nil); !errors.Is(err, failure) {
		t.Error(err)
	}
	if err := guard.Run(func() error { panic("boom") }); !strings.Contains(err.Error(), "panic: boom\n") ||
		!strings.Contains(err.Error(), "guard_test.go") {
		t.Errorf("without a log: %v", err)
	}
}

// TestRunAllocatesNothing for work that ends well: requests of peers run in a Guard.
func TestRunAllocatesNothing(t *testing.T) {
	op := t.Name()
	if n := testing.AllocsPerRun(100, func() {
		g := guard.Guard{Log: slog.Default()}
		_ = g.Run("work panicked", func() error { return nil }, func() []any { return []any{"op", op} })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
