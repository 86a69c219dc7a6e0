package durability

import (
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/durability"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestNewTarget: a target that was just set is met within seconds, though a tick takes a minute and one of
// the members is silent. The report says how far it is.
func TestNewTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := durability.DefaultParams()
		c := newClusterAt(t, 4, fast, p)
		c.hangs = true
		run(3 * p.Tick)
		c.nodes[3].kill()
		s := c.nodes[0].service()
		pin := func(data string, o store.PinOptions) b3.Root {
			t.Helper()
			st := c.nodes[0].store
			root := storetest.Put(t, st, []byte(data))
			o.Label = "mine"
			if err := st.Pin(t.Context(), root, o); err != nil {
				t.Fatal(err)
			}
			for pin, err := range st.Pins(t.Context()) {
				if err == nil && pin.Root == root {
					s.Pinned(pin)
				}
			}
			return root
		}
		copies := func(n int) store.PinOptions { return store.PinOptions{Target: meta.Target{Copies: n}} }
		var roots []b3.Root
		for _, data := range []string{"one", "two", "three", "four", "five"} {
			roots = append(roots, pin(data, copies(3)))
		}
		below := storetest.Put(t, c.nodes[0].store, []byte("below"))
		tree := copies(3)
		tree.Recursive = true
		c.below[b3.Sum([]byte("tree"))] = []b3.Root{below}
		roots = append(roots, pin("tree", tree), below)
		if n := len(roots) - len(s.Unmet(roots)); n != 0 {
			t.Errorf("%d targets are met at once", n)
		}
		run(15 * time.Second)
		c.want(roots[:6], 3)
		if n := len(roots) - len(s.Unmet(roots)); n != len(roots) {
			t.Errorf("%d of %d targets are met", n, len(roots))
		}
		// Nobody can give a fourth copy but the member that is silent.
		short := pin("six", copies(4))
		run(15 * time.Second)
		if n := 1 - len(s.Unmet([]b3.Root{short})); n != 0 {
			t.Error("four copies at three members")
		}
		r := s.Report()
		if r.Objects != 8 || r.AtRisk != 1 || r.Lost != 0 || r.Wanted != 25 || r.Observed != 24 || r.Missing != 3 ||
			!r.Ready || r.LastOnly || len(r.Members) != 4 || r.ETA <= 0 {
			t.Errorf("the report is %+v", r)
		}
		o, err := s.Object(short, true)
		if err != nil {
			t.Fatal(err)
		}
		states := map[durability.State]int{}
		for _, c := range o.Copies {
			states[c.State]++
			if (c.State == durability.StateProved) == (c.LastProof.IsZero() && !c.Here) {
				t.Errorf("%s was proved at %s", c.State, c.LastProof)
			}
		}
		if o.Wanted != 4 || o.Observed != 3 || o.Since.IsZero() || states[durability.StateProved] != 3 ||
			states[durability.StateUnknown] != 1 || len(o.Place) != 4 || o.Place[0].Chosen != 1 || o.Size != 3 {
			t.Errorf("the object's report is %+v", o)
		}
		run(p.Grace)
		if o, _ := s.Object(short, false); o.Copies[0].State != durability.StateProved || len(o.Place) != 0 {
			t.Errorf("its own copy is %+v", o.Copies[0])
		}
		if _, err := s.Object(b3.Root{1}, false); status.Of(err) != status.NotFound {
			t.Error(err)
		}
	})
}

// TestLost: an object that is nowhere is lost, and so is one whose only copy is damaged here.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, fast)
		run(params.Grace)
		x := c.nodes[0]
		roots := c.pin(x, 2, 1000, 2)
		run(3 * params.Tick)
		if r := x.service().Sum(); r.AtRisk != 2 || r.Lost != 0 || r.Missing < 2000 {
			t.Errorf("without members the report is %+v", r)
		}
		s := x.service()
		s.mu.Lock()
		e := s.find(roots[0])
		e.here = false
		n := e.count(s.deps.View(), s.p, time.Now())
		state := e.Status(s.deps.View(), s.p, time.Now(), false).Copies[0].State
		s.mu.Unlock()
		if n.Lost != 1 || n.AtRisk != 0 || state != durability.StateAbsent {
			t.Errorf("without any copy it is %+v, %s", n, state)
		}
	})
}

// TestSumOfWholeTicks: a tick in between keeps the counts of the latest whole one, and Report counts anew.
func TestSumOfWholeTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, fast)
		run(params.Grace)
		x := c.nodes[0]
		roots := c.pin(x, 2, 1000, 2)
		run(3 * params.Tick)
		x.stop() // no tick but those below
		s := x.service()
		s.mu.Lock()
		for _, root := range roots {
			s.find(root).here = false
		}
		s.mu.Unlock()
		s.plan(false)
		if n := s.Sum(); n.Objects != 2 || n.AtRisk != 2 || n.Lost != 0 {
			t.Errorf("after a tick in between the sum is %+v", n)
		}
		if n := s.Report().Sum; n.Lost != 2 {
			t.Errorf("the report is %+v", n)
		}
		s.plan(true)
		if n := s.Sum(); n.Objects != 2 || n.Lost != 2 {
			t.Errorf("after a whole tick the sum is %+v", n)
		}
	})
}
