package upkeep

import (
	"testing"
	"testing/synctest"

	"allium/protocols/b3"
	"allium/store/meta"
)

// TestToldWithCopies: a member that takes the targets with the copies, and proves them, is neither told of them nor
// challenged after that. One that does not is, and both have the same copies and targets then.
func TestToldWithCopies(t *testing.T) {
	for name, able := range map[string]int{"none": 0, "one": 1, "both": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := params
				p.AuditPeriod = params.Grace * 1000 // nothing happens but what somebody waits for
				c := newClusterAt(t, 3, fast, p)
				for i, x := range c.nodes[1:] {
					x.told.Store(i < able)
				}
				run(params.Grace)
				x := c.nodes[0]
				c.mu.Lock()
				c.asked = 0
				c.mu.Unlock()
				roots := c.pin(x, 30, 1000, 3)
				for p, err := range x.store.Pins(t.Context()) {
					if err == nil {
						err = x.service().Pinned(t.Context(), p)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				run(params.Grace)
				if w := x.service().Progress(roots, meta.Target{Copies: 3}); len(w.Unmet) > 0 {
					t.Errorf("%d objects have not their copies", len(w.Unmet))
				}
				c.want(roots, 3)
				c.mu.Lock()
				asked, puts := c.asked, c.puts
				c.mu.Unlock()
				if puts != 2 {
					t.Errorf("%d puts", puts)
				}
				// The first challenge of both, then a tell and a challenge of each that takes no targets with copies.
				if want := 2 + 2*(2-able); asked != want {
					t.Errorf("%d other requests, want %d", asked, want)
				}
				targets(t, c, roots)
			})
		})
	}
}

// targets fails the test unless each node but the first has the target of the first, in a pin of its own.
func targets(t *testing.T, c *cluster, roots []b3.Root) {
	t.Helper()
	label := meta.OriginLabel(c.nodes[0].id.String())
	for i, x := range c.nodes[1:] {
		found := 0
		for p, err := range x.store.Pins(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if p.Label == label && p.Target.Copies == 3 {
				found++
			}
		}
		if found != len(roots) {
			t.Errorf("node %d has %d targets of %d", i+1, found, len(roots))
		}
	}
}

// TestProvedAsSent: a proof that came with the copy is kept over a restart, as any other, and a copy that is lost after
// it is found out by the next audit.
func TestProvedAsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, fast)
		for _, x := range c.nodes {
			x.told.Store(true)
		}
		run(params.Grace)
		roots := c.pin(c.nodes[0], 20, 1000, 2)
		run(params.Grace)
		c.want(roots, 2)
		lost := c.pinned()[roots[0]][1]
		lost.lack(roots[0], true)
		run(3 * params.AuditPeriod)
		if at := c.pinned()[roots[0]]; len(at) < 3 {
			t.Errorf("nodes that pin the object whose copy was lost: %d", len(at))
		}
	})
}
