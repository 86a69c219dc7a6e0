package env

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestShared: several services of one node count in the same metrics, and nodes do not.
func TestShared(t *testing.T) {
	one, other := prometheus.NewRegistry(), prometheus.NewRegistry()
	for _, shared := range []func(prometheus.Registerer) *prometheus.CounterVec{Retries, Timeouts} {
		shared(one).WithLabelValues("a").Inc()
		shared(one).WithLabelValues("a").Inc()
		shared(other).WithLabelValues("a").Inc()
		shared(nil).WithLabelValues("a").Inc()
		if n := testutil.ToFloat64(shared(one).WithLabelValues("a")); n != 2 {
			t.Errorf("%v, not 2", n)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("another metric with that name is no bug")
		}
	}()
	third := prometheus.NewRegistry()
	third.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "io_timeouts_total", Help: "x"}))
	Timeouts(third)
}
