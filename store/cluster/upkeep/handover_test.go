package upkeep

import (
	"testing"
	"testing/synctest"
	"time"

	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestHandover: a node hands its copies over, those that it asks for itself too, within the time of a few ticks, and
// knows when it is done. A restart in between does not end that. Afterwards nothing is lost without it.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan.DefaultParams()
		c := newClusterAt(t, 6, fast, p)
		run(3 * p.Tick)
		x := c.nodes[0]
		roots := append(c.pin(x, 8, 1000, 3), c.pin(c.nodes[1], 12, 1000, 2)...)
		run(5 * p.Tick)
		if h := x.service().Handover(); h.Done() || h.Objects != 0 {
			t.Errorf("before it is asked to, it is %+v", h)
		}
		x.drain(time.Now())
		h := x.service().Handover()
		if h.Ready || h.Done() || h.Objects < 8 || h.Left != h.Objects || h.LeftBytes < 8000 || h.Stuck != 0 {
			t.Errorf("at first it is %+v", h)
		}
		x.kill()
		x.start()
		if x.service().Handover().Ready {
			t.Error("it is ready before it has looked at its pins")
		}
		run(p.Tick * 3 / 2)
		if h = x.service().Handover(); !h.Done() || h.Alone != 0 || h.SendErr != nil {
			t.Errorf("at the end it is %+v", h)
		}
		by := c.pinned()
		for i, root := range roots {
			others := 0
			for _, at := range by[root] {
				if at != x {
					others++
				}
			}
			if want := map[bool]int{true: 3, false: 2}[i < 8]; others < want {
				t.Errorf("object %d is at %d others, want %d", i, others, want)
			}
		}
		x.kill()
		sent := c.sent()
		run(2 * p.Grace)
		if n := c.sent() - sent; n != 0 {
			t.Errorf("%d copies are sent when it is gone", n)
		}
	})
}

// TestHandoverStops: a node that is told to stop is a full member again, and what is too much goes.
func TestHandoverStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, fast)
		run(params.Grace)
		x := c.nodes[0]
		roots := c.pin(x, 8, 1000, 3)
		run(params.Grace)
		x.drain(time.Now())
		run(params.Grace)
		if h := x.service().Handover(); !h.Done() || h.Objects != 8 {
			t.Errorf("it is %+v", h)
		}
		x.drain(time.Time{})
		run(20 * params.TrimWait)
		c.want(roots, 3)
		if h := x.service().Handover(); h.Done() {
			t.Errorf("then it is %+v", h)
		}
	})
}

// TestHandoverStuck: what too few others can hold is left, and it is said why; what nobody asked copies of is
// counted.
func TestHandoverStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, fast)
		c.nodes[3].full.Store(true)
		run(params.Grace)
		x := c.nodes[0]
		roots := append(c.pin(x, 2, 1000, 2), c.pin(x, 1, 900, 3)...)
		root := storetest.Put(t, x.store, []byte("alone"))
		pin := func(target meta.Target) {
			t.Helper()
			err := x.store.Pin(t.Context(), root, store.PinOptions{Label: "mine", Target: target})
			if err != nil {
				t.Fatal(err)
			}
		}
		pin(meta.Target{})
		run(params.Grace)
		x.drain(time.Now())
		run(params.Grace)
		h := x.service().Handover()
		if h.Done() || !h.Ready || h.Objects != 3 || h.Left != 1 || h.Stuck != 1 ||
			h.First != roots[2] || h.Alone != 1 ||
			h.Takers.Members != 2 || h.Takers.Refused["too little space is left"] != 1 {
			t.Errorf("it is %+v", h)
		}
		pin(meta.Target{Copies: 1})
		c.nodes[3].full.Store(false)
		run(params.Grace)
		if h := x.service().Handover(); !h.Done() || h.Objects != 4 || h.Alone != 0 {
			t.Errorf("with space it is %+v", h)
		}
	})
}
