package durability

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"allium/protocols/status"
)

// racks starts a world of n nodes, each in a rack of its own.
func racks(t fataler, n int) *world {
	w := newWorld(t, 7)
	for i := range n {
		w.add(Place{Domain: fmt.Sprint("rack-", i)}, 1<<34)
	}
	w.run(2 * w.p.Grace)
	return w
}

func (w *world) holders(object int) (list []*node) {
	for _, n := range w.nodes {
		if n.disk[number(object)] != 0 {
			list = append(list, n)
		}
	}
	return list
}

func wantCopies(t *testing.T, w *world, object, want int) {
	t.Helper()
	if n := w.copies(number(object)); n != want {
		t.Errorf("object %d has %d copies, want %d\n%s", object, n, want, w.describe(number(object)))
	}
}

// TestRestartMovesNothing: a node that is away for less than the grace causes no send, and all
// nodes together neither.
func TestRestartMovesNothing(t *testing.T) {
	t.Parallel()
	w := racks(t, 8)
	for i := range 20 {
		w.pin(w.nodes[i%8], number(i), 1<<16, 3)
	}
	w.run(w.p.Grace)
	sends := w.sends
	if sends != 40 {
		t.Errorf("%d sends for 20 objects with 3 copies", sends)
	}
	for _, n := range w.nodes {
		w.stop(n)
		w.run(w.p.Grace * 6 / 10)
		w.start(n)
		w.run(w.p.Grace)
	}
	for _, n := range w.nodes {
		w.stop(n)
	}
	w.run(10 * w.p.Grace)
	for _, n := range w.nodes {
		w.start(n)
	}
	w.run(10 * w.p.Grace)
	if w.sends != sends {
		t.Errorf("%d sends because of restarts", w.sends-sends)
	}
	for i := range 20 {
		wantCopies(t, w, i, 3)
	}
}

// TestLostNodes: after a node is gone each of its objects gets another copy. When it comes back
// the copy too much is dropped. Every node is replaced in turn, and nothing is lost.
func TestLostNodes(t *testing.T) {
	t.Parallel()
	w := racks(t, 9)
	for i := range 15 {
		w.pin(w.nodes[i%9], number(i), 1<<16, 3)
	}
	w.run(w.p.Grace)
	n := w.holders(0)[1]
	w.stop(n)
	w.run(4 * w.p.Grace)
	wantCopies(t, w, 0, 4) // with that of the stopped node
	w.start(n)
	w.run(12 * w.p.TrimWait)
	wantCopies(t, w, 0, 3)
	for _, n := range slices.Clone(w.nodes) {
		w.stop(n)
		w.wipe(n)
		w.add(Place{Domain: "new " + string(n.id)}, 1<<34)
		w.run(20 * w.p.Grace)
	}
	for i := range 15 {
		wantCopies(t, w, i, 3)
	}
}

// TestVanishedTogether: when more than a third of the members vanish together only last copies
// are repaired, until the hour ends or the operator says so.
func TestVanishedTogether(t *testing.T) {
	t.Parallel()
	w := racks(t, 12)
	for i := range 30 {
		w.pin(w.nodes[i%12], number(i), 1<<16, 3)
	}
	w.run(w.p.Grace)
	last := 0
	for _, n := range w.nodes[:5] {
		w.stop(n)
	}
	for i := range 30 {
		left := 0
		for _, n := range w.holders(i) {
			if n.alive {
				left++
			}
		}
		if left == 1 {
			last++
		}
	}
	sends := w.sends
	w.run(6 * w.p.Grace)
	if n := w.sends - sends; n != last || last == 0 {
		t.Errorf("%d sends for %d last copies", n, last)
	}
	for _, n := range w.nodes {
		n.cluster.Resume()
	}
	w.run(6 * w.p.Grace)
	for i := range 30 {
		left := 0
		for _, n := range w.holders(i) {
			if n.alive {
				left++
			}
		}
		if left < 3 && slices.ContainsFunc(w.holders(i), func(n *node) bool { return n.alive }) {
			t.Errorf("object %d has %d copies after the operator said so", i, left)
		}
	}
}

// TestLiars: a member that loses what it takes does not count, and costs a bounded number of sends.
func TestLiars(t *testing.T) {
	t.Parallel()
	w := racks(t, 8)
	for _, n := range w.nodes[5:] {
		n.liar = true
	}
	for i := range 10 {
		w.pin(w.nodes[i%5], number(i), 1<<16, 3)
	}
	w.run(5 * w.p.Grace)
	for i := range 10 {
		wantCopies(t, w, i, 3)
	}
	if w.sends > 10*(2+3*4) {
		t.Errorf("%d sends for 20 copies", w.sends)
	}
}

// TestAmnesiaAndBuckets: copies in RAM do not count, and those of nodes with one bucket are one.
func TestAmnesiaAndBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.add(Place{Domain: "a"}, 1<<34)
	for range 3 {
		w.add(Place{Domain: BucketDomain + "x"}, 1<<34)
	}
	w.add(Place{Domain: "b"}, 1<<34).member.Amnesia = true
	w.run(2 * time.Second)
	w.pin(w.nodes[0], number(1), 1000, 3)
	w.run(2 * w.p.Grace)
	wantCopies(t, w, 1, 2) // here and in the bucket; nobody else takes one
	o := w.nodes[0].objects[number(1)]
	if n := len(o.Holders(w.nodes[0].cluster.View(w.now), w.p, w.now)); n != 2 {
		t.Errorf("%d copies count", n)
	}
	w.add(Place{Domain: "c"}, 1<<34)
	w.run(2 * w.p.Grace)
	wantCopies(t, w, 1, 3)
}

// TestEvacuation: what a draining member holds is sent to others, and it gets nothing; its copies
// then go.
func TestEvacuation(t *testing.T) {
	t.Parallel()
	w := racks(t, 6)
	for i := range 12 {
		w.pin(w.nodes[0], number(i), 1<<16, 3)
	}
	w.run(w.p.Grace)
	n := w.nodes[3]
	if len(n.disk) == 0 {
		t.Fatal("it holds nothing")
	}
	n.member.Draining = true
	w.run(3 * w.p.Grace)
	for i := range 12 {
		others := slices.DeleteFunc(w.holders(i), func(x *node) bool { return x == n })
		if len(others) != 3 {
			t.Errorf("object %d is at %d others", i, len(others))
		}
	}
}

// TestHundredsOfNodes: a cluster of 200 nodes of unequal capacity with churn keeps its targets, and
// nobody sends more than one node's share of them all.
func TestHundredsOfNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	w := newWorld(t, 11)
	const nodes, objects = 200, 400
	for i := range nodes {
		w.add(Place{Domain: fmt.Sprint("rack-", i/4), Region: fmt.Sprint(i % 3)}, 1<<30<<(i%4))
	}
	w.run(2 * w.p.Grace)
	for i := range objects {
		w.pin(w.nodes[i%nodes], number(i), 1<<16, 2+i%3)
	}
	w.run(w.p.Grace)
	for range 10 {
		n := w.nodes[w.rng.IntN(nodes)]
		w.stop(n)
		w.run(w.p.Grace / 2)
		if w.rng.IntN(2) == 0 {
			w.start(n)
		}
	}
	w.run(4 * w.p.Grace)
	for i := range objects {
		alive := 0
		for _, n := range w.holders(i) {
			if n.alive {
				alive++
			}
		}
		if alive < 2+i%3 {
			t.Errorf("object %d has %d copies of %d", i, alive, 2+i%3)
		}
	}
}

// TestSameEventsSameActions: two runs from one seed do the same.
func TestSameEventsSameActions(t *testing.T) {
	t.Parallel()
	run := func() uint64 {
		w := racks(t, 7)
		for i := range 10 {
			w.pin(w.nodes[i%7], number(i), 1<<18, 3)
		}
		w.run(w.p.Grace)
		w.stop(w.nodes[2])
		w.run(4 * w.p.Grace)
		w.start(w.nodes[2])
		w.run(8 * w.p.Grace)
		return w.trace
	}
	if a, b := run(), run(); a != b {
		t.Error("two runs differ")
	}
}

// TestBusyIsNotFailed: a holder that is late still counts, until its proof is two periods old.
func TestBusyIsNotFailed(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	o := NewObject(number(1), 100, now)
	o.Answered("member-1", Proved, p, now)
	count := func() int { return len(o.Holders(v, p, now)) }
	now = now.Add(p.AuditPeriod)
	o.Answered("member-1", Busy, p, now)
	if count() != 2 {
		t.Error("a late answer takes a copy away")
	}
	now = now.Add(p.AuditPeriod + time.Second)
	if count() != 1 {
		t.Error("a proof of two periods ago counts")
	}
	o.Answered("member-1", Proved, p, now)
	if count() != 2 {
		t.Error("a new proof does not count")
	}
	o.Answered("member-1", Absent, p, now)
	if count() != 1 {
		t.Error("a copy that is not proved counts")
	}
}

// TestClusterIsBounded: offers of more members than the limit are refused, old ones are stale, and
// members that are gone give way.
func TestClusterIsBounded(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	c := NewCluster("self", p)
	offer := func(i int, seq uint64) error {
		return c.Offer(Member{ID: ID(fmt.Sprint(i)), Capacity: 1}, seq, now)
	}
	for i := range MaxMembers {
		if err := offer(i, 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := offer(MaxMembers, 5); status.Of(err) != status.Busy {
		t.Errorf("one more: %v", err)
	}
	if err := offer(3, 4); status.Of(err) != status.Stale {
		t.Errorf("an older offer: %v", err)
	}
	now = now.Add(p.Grace)
	if err := offer(3, 5); err != nil { // a replay shows nobody
		t.Error(err)
	}
	if m, _ := c.View(now).Member("3"); !m.Gone {
		t.Error("a replayed offer shows its author as present")
	}
	if err := offer(MaxMembers, 5); err != nil {
		t.Errorf("after all are gone: %v", err)
	}
	if n := len(c.View(now).Members()); n != MaxMembers {
		t.Errorf("%d members", n)
	}
	now = now.Add(forgetAfter)
	if n := len(c.View(now).Members()); n != 0 {
		t.Errorf("%d members after a week", n)
	}
}
