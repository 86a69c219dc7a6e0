package upkeep

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestNewTarget: a target that was just set is met within seconds, though a tick takes a minute and one of
// the members is silent. The report says how far it is.
func TestNewTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan.DefaultParams()
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
					if err := s.Pinned(t.Context(), pin); err != nil {
						t.Error(err)
					}
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
		if n := len(roots) - len(s.Progress(roots, meta.Target{}).Unmet); n != 0 {
			t.Errorf("%d targets are met at once", n)
		}
		run(15 * time.Second)
		c.want(roots[:6], 3)
		if n := len(roots) - len(s.Progress(roots, meta.Target{}).Unmet); n != len(roots) {
			t.Errorf("%d of %d targets are met", n, len(roots))
		}
		// Nobody can give a fourth copy but the member that is silent.
		short := pin("six", copies(4))
		run(15 * time.Second)
		for copies, unmet := range map[int]int{0: 1, 4: 1, 3: 0, 2: 0} { // 0: what all pins ask for
			if w := s.Progress([]b3.Root{short}, meta.Target{Copies: copies}); len(w.Unmet) != unmet {
				t.Errorf("four copies at three members, and %d are awaited: %+v", copies, w)
			}
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
		states := map[plan.State]int{}
		for _, c := range o.Copies {
			states[c.State]++
			if (c.State == plan.StateProved) == (c.LastProof.IsZero() && !c.Here) {
				t.Errorf("%s was proved at %s", c.State, c.LastProof)
			}
		}
		if o.Wanted != 4 || o.Observed != 3 || o.Since.IsZero() || states[plan.StateProved] != 3 ||
			states[plan.StateUnknown] != 1 || len(o.Place) != 4 || o.Place[0].Chosen != 1 || o.Size != 3 {
			t.Errorf("the object's report is %+v", o)
		}
		run(p.Grace)
		if w := s.Progress([]b3.Root{short, roots[0]}, meta.Target{Copies: 4}); w.Stuck != 2 || w.First != short ||
			w.Given != 1 || w.Takers.Members != 3 || len(w.Takers.Refused) != 1 || len(w.Unmet) != 2 {
			t.Errorf("when the fourth is gone: %+v", w)
		}
		if o, _ := s.Object(short, false); o.Copies[0].State != plan.StateProved || len(o.Place) != 0 {
			t.Errorf("its own copy is %+v", o.Copies[0])
		}
		if _, err := s.Object(b3.Root{1}, false); status.Of(err) != status.NotFound {
			t.Error(err)
		}
	})
}

// TestLost: an object whose copy here is damaged is at risk while another one is proved, cannot be reached while its
// holder is gone, and is lost when that one is back without it. Not before
// that has answered.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, fast)
		run(params.Grace)
		x, y := c.nodes[0], c.nodes[1]
		roots := c.pin(x, 2, 1000, 2)
		run(3 * params.Tick)
		want := func(what string, want Sum) {
			t.Helper()
			got := x.service().Sum()
			got.Behind, got.Wanted, got.Observed, got.Missing = 0, 0, 0, 0
			if got != want {
				t.Errorf("%s it is %+v", what, got)
			}
		}
		want("with all copies", Sum{Objects: 2})
		x.lack(roots[0], true)
		run(3 * params.Tick)
		want("with a damaged copy", Sum{Objects: 2, AtRisk: 1})
		y.kill()
		run(3 * params.Grace)
		want("while the other holder is gone", Sum{Objects: 2, AtRisk: 2, Unreachable: 1})
		if o, err := x.service().Object(roots[0], false); err != nil || o.Standing != plan.Unreachable ||
			o.Copies[0].State != plan.StateAbsent || o.Since.IsZero() {
			t.Errorf("the object's report is %+v, %v", o, err)
		}
		y.lack(roots[0], true)
		y.start()
		c.offer()
		if r := x.service().Report(); r.Lost != 0 {
			t.Errorf("before it has answered it is %+v", r.Sum)
		}
		run(2 * params.Grace)
		want("without any copy", Sum{Objects: 2, Lost: 1})
		y.lack(roots[0], false)
		run(2 * params.AuditPeriod)
		want("when it is found again", Sum{Objects: 2, AtRisk: 1})
	})
}

// TestUntoldCopyIsFound: an object whose copy here is damaged is not lost while a member has one that it was told
// nothing of.
func TestUntoldCopyIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, fast)
		run(params.Grace)
		x, y := c.nodes[0], c.nodes[1]
		y.kill()
		run(2 * params.Grace)
		untold := storetest.Put(t, y.store, []byte("its sender is gone"))
		if err := y.store.Pin(t.Context(), untold, store.PinOptions{Label: meta.ClusterLabel}); err != nil {
			t.Fatal(err)
		}
		_ = storetest.Put(t, x.store, []byte("its sender is gone"))
		mine := store.PinOptions{Label: "mine", Target: meta.Target{Copies: 2}}
		if err := x.store.Pin(t.Context(), untold, mine); err != nil {
			t.Fatal(err)
		}
		run(3 * params.Tick)
		x.lack(untold, true)
		run(params.Grace)
		y.start()
		c.offer()
		for range 20 {
			run(params.Tick)
			if r := x.service().Sum(); r.Lost != 0 {
				t.Fatalf("it is lost: %+v", r)
			}
		}
		if r := x.service().Sum(); r.AtRisk != 1 || r.Unreachable != 0 || r.Observed != 1 {
			t.Errorf("it is %+v", r)
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
		s.inventory.mu.Lock()
		for _, root := range roots {
			s.inventory.find(root).Here = false
		}
		s.inventory.mu.Unlock()
		s.planner.plan(false)
		if n := s.Sum(); n.Objects != 2 || n.AtRisk != 2 || n.Lost != 0 {
			t.Errorf("after a tick in between the sum is %+v", n)
		}
		if n := s.Report().Sum; n.Lost != 2 {
			t.Errorf("the report is %+v", n)
		}
		s.planner.plan(true)
		if n := s.Sum(); n.Objects != 2 || n.Lost != 2 {
			t.Errorf("after a whole tick the sum is %+v", n)
		}
	})
}

// TestProgressTellsWhy: the error of a failed send is told of the object that was to be sent, that of a failed coding
// of the object that was to be coded, and a pin of one object does not keep others from being looked at.
func TestProgressTellsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, fast)
		run(params.Grace)
		x := c.nodes[0]
		c.nodes[1].failing.Store(true)
		failing, other := c.pin(x, 1, 100, 2)[0], c.pin(x, 1, 100, 1)[0]
		coded := storetest.Put(t, x.store, bytes.Repeat([]byte("coded"), 1<<18))
		target := meta.Target{Data: 2, Parity: 1}
		if err := x.store.Pin(t.Context(), coded, store.PinOptions{Label: "mine", Target: target}); err != nil {
			t.Fatal(err)
		}
		s := x.service()
		told := false
		for range 40 {
			run(params.Tick / 2)
			w := s.Progress([]b3.Root{failing}, meta.Target{})
			told = told || w.SendErr != nil && !w.Failing.IsZero()
			if w := s.Progress([]b3.Root{other}, meta.Target{}); w.SendErr != nil {
				t.Fatalf("an object that is not sent: %+v", w)
			}
		}
		if !told {
			t.Error("a failed send is not told")
		}
		if w := s.Progress([]b3.Root{other}, meta.Target{}); len(w.Unmet) > 0 {
			t.Errorf("an object that needs no copies: %+v", w)
		}
		if w := s.Progress([]b3.Root{coded}, target); w.CodeErr == nil {
			t.Errorf("an object that cannot be coded: %+v", w)
		}
		pin := meta.Pin{Root: other, Label: "mine", Target: meta.Target{Copies: 1, Seq: 1}}
		if err := s.Pinned(t.Context(), pin); err != nil || s.Progress([]b3.Root{failing}, meta.Target{}).Pending {
			t.Errorf("a pin of one object: %v, and nothing is known till the next tick", err)
		}
		pin.Recursive = true
		if err := s.Pinned(t.Context(), pin); err != nil || !s.Progress([]b3.Root{failing}, meta.Target{}).Pending {
			t.Errorf("a pin of a tree: %v, and it is not waited for", err)
		}
		c.nodes[1].failing.Store(false)
		run(4 * params.Grace)
		if w := s.Progress([]b3.Root{failing}, meta.Target{}); len(w.Unmet) > 0 {
			t.Errorf("at the end: %+v", w)
		}
	})
}
