package readiness

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := map[string]bool{}
		gate := func(name string, s Scope) Gate {
			return Gate{Name: name, Scope: s, Check: func() Reading { return YesNo(open[name], "open "+name) }}
		}
		b := NewBoard(gate("store", Both), gate("space", Writes), gate("seeds", Network))
		start := time.Now()
		for _, step := range []struct {
			store, space, seeds           bool
			ready, reads, writes, network bool
		}{
			{false, false, false, false, false, false, false},
			{true, false, true, false, true, false, true},
			{true, true, true, true, true, true, true},
			{true, true, false, false, true, true, false}, // alone: what is here is served, and more is taken
			{true, false, false, false, true, false, false},
			{false, true, true, false, false, false, false},
		} {
			time.Sleep(time.Minute)
			open["store"], open["space"], open["seeds"] = step.store, step.space, step.seeds
			r := b.Report()
			if r.Ready != step.ready || r.Reads != step.reads || r.Writes != step.writes || r.Network != step.network {
				t.Errorf("%+v: got %+v", step, r)
			}
			for _, g := range r.Gates {
				if g.Ready == (g.Fix != "") || g.Ready == (g.RetryAfter != 0) {
					t.Errorf("a fix goes with a closed gate: %+v", g)
				}
			}
		}
		r := b.Report()
		if got := r.Gates[0].Since.Sub(start); got != 6*time.Minute {
			t.Errorf("store changed after %s", got)
		}
		if got := r.Gates[1].Since.Sub(start); got != 6*time.Minute {
			t.Errorf("space changed after %s", got)
		}
	})
}
