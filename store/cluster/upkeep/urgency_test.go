package upkeep

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// TestReadsGoFirst: of objects that miss a copy the last ones go first, then what a reader missed, then what was read,
// for a while. Proofs and copies of a node are no reads.
func TestReadsGoFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("lives four hours of one node in virtual time")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, fast)
		x := c.nodes[0]
		roots := c.pin(x, 4, 1000, 2)
		last, missed, read, idle := roots[0], roots[1], roots[2], roots[3]
		time.Sleep(2 * readFor)
		s := x.service()
		s.Missed(missed)
		o, err := x.store.Open(t.Context(), read)
		if err != nil {
			t.Fatal(err)
		}
		_ = o.Close()
		if o, err = x.store.Inspect(t.Context(), idle); err != nil {
			t.Fatal(err)
		}
		_ = o.Close()
		order := func() (got []b3.Root, priorities []plan.Priority) {
			var sends []planned
			for _, root := range []b3.Root{idle, read, missed, last} {
				p := plan.Other
				if root == last {
					p = plan.LastCopy
				}
				e := &entry{Object: plan.NewObject(root, 1000, time.Now())}
				sends = append(sends, planned{entry: e, Action: plan.Action{Kind: plan.Send, Priority: p}})
			}
			s.planner.order(t.Context(), sends)
			for _, p := range sends {
				got, priorities = append(got, p.Root), append(priorities, p.Priority)
			}
			return got, priorities
		}
		want := []plan.Priority{plan.LastCopy, plan.WasMissed, plan.WasRead, plan.Other}
		if got, p := order(); !slices.Equal(got, roots) || !slices.Equal(p, want) {
			t.Errorf("the order is %v with %v, want %v with %v", got, p, roots, want)
		}
		time.Sleep(2 * readFor)
		want = []plan.Priority{plan.LastCopy, plan.Other, plan.Other, plan.Other}
		if _, p := order(); !slices.Equal(p, want) {
			t.Errorf("later the priorities are %v, want %v", p, want)
		}
	})
}

// TestMissedIsBounded: the service remembers at most maxMissed objects, and old ones make room for new ones.
func TestMissedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t, 1, fast).nodes[0].service()
		for i := range maxMissed + 100 {
			s.Missed(b3.Root{byte(i), byte(i >> 8)})
		}
		if n := len(s.planner.missed.at); n != maxMissed {
			t.Errorf("%d are remembered, want %d", n, maxMissed)
		}
		time.Sleep(2 * readFor)
		s.Missed(b3.Root{0: 1, 3: 1})
		if n := len(s.planner.missed.at); n != 1 {
			t.Errorf("later %d are remembered, want 1", n)
		}
	})
}
