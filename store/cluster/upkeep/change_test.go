package upkeep

import (
	"testing"
	"testing/synctest"

	"allium/store/cluster/plan"
)

// TestChanges: a member that goes is told once, and so are the objects that lost a copy, and that they have it again. A
// node that starts tells nothing, nor does one at rest.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, fast)
		run(params.Grace)
		x := c.nodes[0]
		roots := c.pin(x, 8, 1000, 3)
		run(params.Grace)
		take := func() (changes []Change) {
			x.mu.Lock()
			defer x.mu.Unlock()
			for _, ch := range x.changes {
				if ch.Behind() || ch.Restored() || ch.Lost() || len(ch.Gone)+len(ch.Back) > 0 {
					changes = append(changes, ch)
				}
			}
			x.changes = nil
			return changes
		}
		for _, ch := range take() {
			if ch.Behind() || ch.Restored() || ch.Lost() || len(ch.Gone) > 0 {
				t.Errorf("after the start: %+v", ch)
			}
		}
		y := c.pinned()[roots[0]][1]
		y.kill()
		run(3 * params.Grace)
		var gone []plan.ID
		behind, restored := 0, 0
		for _, ch := range take() {
			gone = append(gone, ch.Gone...)
			if ch.Behind() {
				behind++
			}
			if ch.Restored() {
				restored++
			}
			if ch.Lost() || len(ch.Back) > 0 {
				t.Errorf("when a member goes: %+v", ch)
			}
		}
		if len(gone) != 1 || gone[0] != plan.ID(y.id) || behind == 0 || restored == 0 {
			t.Errorf("gone are %d members, %d times behind, %d times restored", len(gone), behind, restored)
		}
		y.start()
		run(params.Grace)
		back := 0
		for _, ch := range take() {
			back += len(ch.Back)
		}
		if back != 1 {
			t.Errorf("%d members are back", back)
		}
		run(20 * params.TrimWait)
		take()
		run(3 * params.Grace)
		if changes := take(); len(changes) != 0 {
			t.Errorf("at rest: %+v", changes)
		}
	})
}
