package plan

import (
	"fmt"
	"testing"
	"time"
)

// TestResume: the operator ends the time in which only last copies are sent. It does not begin again because of the
// members that were gone then, but it does when further ones vanish, or the same ones after they were back.
func TestResume(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	c := NewCluster("member-0", p, now)
	seq := uint64(0)
	pass := func(d time.Duration, alive ...int) *View {
		var v *View
		for end := now.Add(d); now.Before(end); now = now.Add(p.Tick) {
			for _, i := range alive {
				seq++
				if err := c.Offer(Member{ID: ID(fmt.Sprint("member-", i)), Capacity: 1}, seq, now); err != nil {
					t.Fatal(err)
				}
			}
			v = c.View(now)
		}
		return v
	}
	want := func(what string, v *View, lastOnly bool) {
		t.Helper()
		if v.LastOnly != lastOnly {
			t.Errorf("%s: only last copies are sent: %t", what, v.LastOnly)
		}
	}
	want("all are there", pass(2*p.Grace, 0, 1, 2, 3, 4, 5), false)
	want("two vanish", pass(p.Grace*3/4, 0, 1, 2, 3), false)
	want("a third vanishes", pass(p.Grace*3/4, 0, 1, 2), true)
	if n := c.Resume(now); n != 3 {
		t.Errorf("%d members are silent", n)
	}
	want("right after the operator said so", c.View(now), false)
	want("later", pass(p.Grace, 0, 1, 2), false)
	want("one of the rest vanishes", pass(p.Grace, 0, 1), false)
	want("another one does", pass(2*p.Grace, 0), true)
	c.Resume(now)
	want("and the operator says so again", pass(p.Grace, 0), false)
	want("all are back", pass(3*p.Grace, 0, 1, 2, 3, 4, 5), false)
	want("and vanish again", pass(p.Grace, 0, 1, 2), true)
}
