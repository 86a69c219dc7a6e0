package tasks

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/status"
)

// TestRegistry: each end of a task is counted as what it is, and the list has each name once.
func TestRegistry(t *testing.T) {
	t.Parallel()
	r := NewRegistry(prometheus.NewRegistry())
	for _, err := range []error{
		nil, context.Canceled, status.Errorf(status.Draining, "x"), errors.New("broken"), context.DeadlineExceeded,
	} {
		r.Begin(Fetch)(err)
	}
	r.Begin(Fill)
	ctx, stop := context.WithCancel(t.Context())
	r.Run(ctx, func(context.Context) {
		r.Abandon()
		stop()
	})
	for _, c := range []struct {
		kind                       Kind
		spawned, canceled, aborted float64
	}{{Fetch, 5, 2, 0}, {Fill, 1, 0, 1}, {Worker, 1, 1, 1}, {Service, 0, 0, 0}, {Lookup, 0, 0, 0}} {
		for what, n := range map[*prometheus.CounterVec]float64{
			r.spawned: c.spawned, r.canceled: c.canceled, r.aborted: c.aborted,
		} {
			if got := testutil.ToFloat64(what.WithLabelValues(string(c.kind))); got != n {
				t.Errorf("%s: %v, want %+v", c.kind, got, c)
			}
		}
	}
	r.List(Info{Name: "b", Kind: Worker, Count: 2})
	r.List(Info{Name: "a", Kind: Worker})
	r.List(Info{Name: "z", Kind: Service})
	r.List(Info{Name: "b", Kind: Worker, Count: 3})
	if l := r.Snapshot(); len(l) != 3 || l[0].Name != "z" || l[1].Name != "a" || l[2].Count != 3 {
		t.Errorf("%+v", l)
	}
	var none *Registry
	none.List(Info{Name: "x"})
	none.Begin(Fetch)(nil)
	none.Run(t.Context(), func(context.Context) {})
	none.Abandon()
	if none.Snapshot() != nil {
		t.Error("a nil registry has a list")
	}
}
