package plan

import (
	"slices"
	"testing"
	"time"

	"allium/store/meta"
)

// TestRemovedWhileAway: a holder was away while the target was removed and the others dropped their copies. It asks the
// origin, which alone remembers the removal. So what it sends to others meanwhile goes again.
func TestRemovedWhileAway(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		w := racks(t, 9)
		root := number(i)
		order := w.nodes[0].cluster.View(w.now).Place(root, 1, nil, nil, 9)
		origin := w.find(order[8].ID)
		w.pin(origin, root, 1000, 3)
		w.run(2 * w.p.Grace)
		holders := w.holders(i)
		if len(holders) != 3 {
			t.Fatalf("%d holders", len(holders))
		}
		away := holders[slices.IndexFunc(holders, func(n *node) bool { return n != origin })]
		w.stop(away)
		o := origin.objects[root]
		o.AskOwn(origin.id, meta.Target{}.Next(o.OwnTarget(origin.id), uint64(w.now.UnixMilli())), w.now)
		w.run(10 * w.p.TrimWait)
		for _, n := range w.nodes {
			if n != origin && n != away {
				delete(n.objects, root)
			}
		}
		w.start(away)
		w.run(20 * w.p.TrimWait)
		wantCopies(t, w, i, 0)
	}
}

// TestAnswerAfterRemoval: a holder that knows of no target but removed ones does not say that its copy counts. So
// nobody relies on it who does not know that it goes.
func TestAnswerAfterRemoval(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	o := NewObject(number(1), 100, now)
	for _, step := range []struct {
		origin ID
		target meta.Target
		want   Answer
	}{
		{"member-1", meta.Target{Copies: 2, Seq: 1}, Proved},
		{"member-1", meta.Target{Seq: 2}, Leaving},
		{"member-2", meta.Target{Copies: 1, Seq: 1}, Proved},
		{"member-2", meta.Target{Seq: 2}, Leaving},
		{"member-1", meta.Target{Copies: 2, Seq: 3}, Proved},
	} {
		o.Ask(step.origin, step.target, now)
		if got := o.Answer(); got != step.want {
			t.Errorf("after %s of %s the answer is %d, want %d", step.target, step.origin, got, step.want)
		}
	}
}
