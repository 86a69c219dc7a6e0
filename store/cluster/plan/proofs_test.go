package plan

import (
	"testing"
	"time"

	"allium/store/meta"
)

// TestShardsOutlastRestarts: what holders of shards proved counts after a restart, each shard once, until it is due.
func TestShardsOutlastRestarts(t *testing.T) {
	t.Parallel()
	w := racks(t, 8)
	n, root, target := w.nodes[0], number(1), meta.Target{Data: 3, Parity: 2}
	w.ask(n, root, 1<<20, target)
	w.run(3 * w.p.Grace)
	v := n.cluster.View(w.now)
	kept := n.objects[root].At(v, w.p, w.now).Proofs()
	if len(kept) != 4 {
		t.Fatalf("kept %+v", kept)
	}
	for name, c := range map[string]struct {
		after time.Duration
		want  int
	}{"at once": {0, 5}, "too late": {2*w.p.AuditPeriod + time.Second, 1}} {
		again := NewObject(root, 1<<20, w.now)
		for _, p := range append(kept, kept...) {
			again.Restore(p, w.p, w.now.Add(c.after))
		}
		again.Ask(n.id, target.Next(meta.Target{}, 1), w.now)
		if got := again.At(v, w.p, w.now.Add(c.after)).held().covered(5); got != c.want {
			t.Errorf("%s: %d places are taken, want %d", name, got, c.want)
		}
	}
}
