package object

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func counter(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestMetricsShared registers a server's and a client's metrics on one
// registerer.
func TestMetricsShared(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	a, b := newMetrics(reg), newMetrics(reg)
	a.bytesIn.Add(3)
	if counter(t, b.bytesIn) != 3 {
		t.Error("two counters of one name")
	}
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}
