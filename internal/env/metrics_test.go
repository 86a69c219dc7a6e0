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

// TestRegister: nil registers nothing, and the error of one metric does not keep the others out.
func TestRegister(t *testing.T) {
	t.Parallel()
	a, b := Counter("a_total", "x"), GaugeVec("b", "x", "y")
	if err := Register(nil, a, b); err != nil {
		t.Error(err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := Register(reg, a, Gauge("a_total", "x"), b); err == nil {
		t.Error("two metrics have one name")
	}
	if !reg.Unregister(a) || !reg.Unregister(b) {
		t.Error("a metric was not registered")
	}
	defer func() {
		if recover() == nil {
			t.Error("MustRegister does not panic")
		}
	}()
	MustRegister(reg, a, a)
}
