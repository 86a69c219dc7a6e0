package dhtsim

import (
	"math"
	"slices"
	"testing"

	"allium/protocols/kad"
)

// still is a world in which nothing recurs.
func still(nodes int) *world { return newWorld(Options{Nodes: nodes, Lookups: 1, Seed: 5}) }

// lookUp runs one lookup by a node for a key that nobody holds.
func lookUp(t *testing.T, w *world, by int32, kth uint64) (*lookup, kad.Result[int32]) {
	t.Helper()
	var result kad.Result[int32]
	l := &lookup{by: by, key: 0, kth: kth, done: func(_ *lookup, r kad.Result[int32]) { result = r }}
	w.start(kad.Find(), kad.Query[int32]{Target: w.content[0]}, l)
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result.End == kad.Running {
		t.Fatal("the lookup did not end")
	}
	return l, result
}

// holds reports whether any bucket of a node has p.
func (w *world) holds(id, p int32) bool {
	return slices.ContainsFunc(w.nodes[id].buckets[:], func(b []int32) bool { return slices.Contains(b, p) })
}

// Who has left never answers, even to a question sent before, and who fails by
// time leaves the table.
func TestTheDeadAreSilent(t *testing.T) {
	t.Parallel()
	w := still(100)
	const by = 0
	known := len(slices.Concat(w.nodes[by].buckets[:]...))
	l := &lookup{by: by, key: -1}
	var result kad.Result[int32]
	l.done = func(_ *lookup, r kad.Result[int32]) { result = r }
	w.start(kad.Find(), kad.Query[int32]{Target: w.content[0]}, l)
	for len(w.live) > 1 {
		w.leave(w.live[len(w.live)-1])
	}
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result.Answers != 0 || result.End != kad.TimedOut {
		t.Errorf("%+v of nobody", result)
	}
	if result.Failed == 0 {
		t.Fatalf("%+v: nobody failed by time", result)
	}
	// Hedges that were given up to ask others leave too; those in flight at the end stay.
	left := len(slices.Concat(w.nodes[by].buckets[:]...))
	if gone := known - left; gone < result.Failed || gone > result.Failed+result.Canceled {
		t.Errorf("%d peers of %d left in the table after %d failed and %d were canceled", left, known, result.Failed,
			result.Canceled)
	}
}

// Hops count only for an answer from within the k closest.
func TestHopsCountTheClosest(t *testing.T) {
	t.Parallel()
	w := still(500)
	if l, _ := lookUp(t, w, 0, 0); l.hops != 0 {
		t.Errorf("%d hops to nobody", l.hops)
	}
	if l, _ := lookUp(t, w, 0, math.MaxUint64); l.hops != 1 {
		t.Errorf("%d hops to anybody, want 1", l.hops)
	}
}

// A refresh drops the dead, and finds others for their places.
func TestRefresh(t *testing.T) {
	t.Parallel()
	w := still(1000)
	const by = 0
	for range 400 {
		if id := w.anybody(); id != by {
			w.leave(id)
		}
	}
	w.refresh(by)
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id := range w.nodes {
		if !w.nodes[id].alive && w.holds(by, int32(id)) {
			t.Errorf("node %d is dead and still in the table", id)
		}
	}
	for c := range 3 {
		if got := len(w.nodes[by].buckets[c]); got < bucketSize*3/4 {
			t.Errorf("bucket %d has %d peers after a refresh", c, got)
		}
	}
}

// Who joins knows its neighbours and is known to them.
func TestJoin(t *testing.T) {
	t.Parallel()
	w := still(1000)
	w.join()
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := int32(1000)
	kth := w.kth(w.nodes[id].place)
	near, knows, known := 0, 0, 0
	for _, p := range w.live {
		if p == id || w.nodes[p].place^w.nodes[id].place > kth {
			continue
		}
		near++
		if w.holds(id, p) {
			knows++
		}
		if w.holds(p, id) {
			known++
		}
	}
	if knows < near*8/10 || known < near*5/10 {
		t.Errorf("of %d neighbours it knows %d and is known to %d", near, knows, known)
	}
}
