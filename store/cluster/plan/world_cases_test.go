package plan

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
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

// pinEach has the first nodes pin objects with 3 copies, in turn.
func pinEach(w *world, objects, nodes int) {
	for i := range objects {
		w.pin(w.nodes[i%nodes], number(i), 1<<16, 3)
	}
}

// wantEach fails the test for each object that pinEach pinned and that has not got 3 copies.
func wantEach(t *testing.T, w *world, objects int) {
	t.Helper()
	for i := range objects {
		wantCopies(t, w, i, 3)
	}
}

// TestRestartMovesNothing: a node that is away for less than the grace causes no send, and all
// nodes together neither.
func TestRestartMovesNothing(t *testing.T) {
	t.Parallel()
	w := racks(t, 8)
	pinEach(w, 20, 8)
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
	wantEach(t, w, 20)
}

// TestLostNodes: after a node is gone each of its objects gets another copy. When it comes back
// the copy too much is dropped. Every node is replaced in turn, and nothing is lost.
func TestLostNodes(t *testing.T) {
	t.Parallel()
	w := racks(t, 9)
	pinEach(w, 15, 9)
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
	wantEach(t, w, 15)
}

// TestVanishedTogether: when more than a third of the members vanish together only last copies
// are repaired, until the hour ends or the operator says so.
func TestVanishedTogether(t *testing.T) {
	t.Parallel()
	w := racks(t, 12)
	pinEach(w, 30, 12)
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
		n.cluster.Resume(w.now)
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
	pinEach(w, 10, 5)
	w.run(5 * w.p.Grace)
	wantEach(t, w, 10)
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
	if n := len(o.At(w.nodes[0].cluster.View(w.now), w.p, w.now).held()); n != 2 {
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
	defer func() {
		w.run(10 * w.p.TrimWait)
		if len(n.disk) != 0 {
			t.Errorf("it still holds %d objects", len(n.disk))
		}
	}()
	n.member.Draining = true
	w.run(3 * w.p.Grace)
	for i := range 12 {
		others := slices.DeleteFunc(w.holders(i), func(x *node) bool { return x == n })
		if len(others) != 3 {
			t.Errorf("object %d is at %d others", i, len(others))
		}
	}
}

// TestFlapping: a member that comes and goes costs about one copy of each of its objects, not one
// each time, unless it stays until a copy was dropped.
func TestFlapping(t *testing.T) {
	t.Parallel()
	p := TestnetParams()
	for _, up := range []time.Duration{p.Grace / 4, p.Grace, 2 * p.Grace, 11 * p.Grace / 4} {
		w := racks(t, 8)
		pinEach(w, 12, 4)
		w.run(p.Grace)
		n := w.nodes[5]
		its := len(n.disk)
		if its == 0 {
			t.Fatal("it holds nothing")
		}
		sends := w.sends
		for range 10 {
			w.stop(n)
			w.run(2 * p.Grace)
			w.start(n)
			w.run(up)
		}
		if got := w.sends - sends; got > 2*its {
			t.Errorf("%d sends for %d objects of a member that flaps", got, its)
		}
		w.run(30 * p.TrimWait)
		wantEach(t, w, 12)
	}
}

// TestHoldersFindEachOther: two pairs of holders, each of which is content with itself, find each
// other, and two of the four copies go.
func TestHoldersFindEachOther(t *testing.T) {
	t.Parallel()
	w := racks(t, 9)
	root, target := number(1), meta.Target{Copies: 2, Seq: 1}
	order := w.nodes[0].cluster.View(w.now).Place(root, 1, nil, nil, 9)
	for i, c := range order[5:] { // none is among the first in the order, nor the origin
		n, mate := w.find(c.ID), w.find(order[5+(i^1)].ID)
		n.disk[root] = 100
		o := w.object(n, root, 100)
		o.Ask(order[4].ID, target, w.now)
		o.At(n.cluster.View(w.now), w.p, w.now).Claimed(mate.id)
	}
	w.run(9*w.p.AuditPeriod + 20*w.p.TrimWait)
	wantCopies(t, w, 1, 2)
	if w.sends != w.moves { // to members that come before those two in the order
		t.Errorf("%d sends that are no moves", w.sends-w.moves)
	}
}

// TestTwoLeases: two holders that got leases from two planners at about the same time count each
// other's copy at no time, so they do not both go.
func TestTwoLeases(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		w := newWorld(t, seed)
		for i := range 5 {
			w.add(Place{Domain: fmt.Sprint("rack-", i)}, 1<<34)
		}
		w.run(2 * w.p.Grace)
		root := number(1)
		for _, n := range w.nodes[1:4] {
			n.disk[root] = 100
			o := w.object(n, root, 100)
			o.Ask("node-000", meta.Target{Copies: 2, Seq: 1}, w.now)
			for _, other := range w.nodes[1:4] {
				o.At(n.cluster.View(w.now), w.p, w.now).Claimed(other.id)
			}
		}
		w.run(3 * w.p.Tick)
		w.nodes[1].objects[root].Leased(w.now)
		w.run(time.Duration(seed) * w.p.Tick / 10)
		w.nodes[2].objects[root].Leased(w.now)
		w.run(30 * w.p.TrimWait) // world.drop fails the test if too few are left
		wantCopies(t, w, 1, 2)
		if w.sends != 0 {
			t.Errorf("%d sends", w.sends)
		}
	}
}

// TestTrimKeepsSpread: of copies in two racks one of the fuller rack goes, wherever the others are
// in the object's order.
func TestTrimKeepsSpread(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		w := newWorld(t, uint64(i))
		for _, rack := range []string{"a", "a", "a", "b"} {
			w.add(Place{Domain: rack}, 1<<34)
		}
		w.run(2 * time.Second)
		root := number(i)
		for _, n := range w.nodes[1:] {
			n.disk[root] = 100
			w.object(n, root, 100).Ask("node-000", meta.Target{Copies: 2, Seq: 1}, w.now)
		}
		w.run(20 * w.p.TrimWait)
		wantCopies(t, w, i, 2)
		if w.nodes[3].disk[root] == 0 {
			t.Errorf("object %d: the only copy in its rack was dropped", i)
		}
	}
}

// TestManyNodes: a cluster of nodes of unequal capacity with churn keeps its targets. ALLIUM_SIM_HOSTS=200
// plays it in full.
func TestManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	w := newWorld(t, 11)
	nodes := 80
	if v := os.Getenv("ALLIUM_SIM_HOSTS"); v != "" {
		var err error
		if nodes, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	objects := 2 * nodes
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

// give has a node hold a piece of an object, for which origin asks.
func (w *world) give(n *node, root b3.Root, piece Piece, origin ID, target meta.Target) *Object {
	n.disk[root], n.piece[root] = 1<<16, piece
	o := w.object(n, root, 1<<16)
	o.Own = piece
	o.Ask(origin, target, w.now)
	return o
}

// TestDoublesMakeRoom: while shards are missing, and each member holds one, a holder of a shard that another one has as
// well drops its own, and gets one that is missing.
func TestDoublesMakeRoom(t *testing.T) {
	t.Parallel()
	for _, pieces := range [][]Piece{
		{Whole, Shard(1), Shard(1), Shard(2), Shard(2)},
		{Whole, Shard(1), Shard(2), Shard(2), Shard(2), Shard(2)},
	} {
		w := racks(t, len(pieces))
		root, want := number(1), len(pieces)-1
		w.ask(w.nodes[0], root, 1<<16, meta.Target{Data: 3, Parity: want - 3})
		target := w.nodes[0].objects[root].OwnTarget(w.nodes[0].id)
		for i, n := range w.nodes[1:] {
			w.give(n, root, pieces[i+1], w.nodes[0].id, target)
		}
		w.run(30 * w.p.TrimWait)
		if places := w.places(root); places.covered(want) != want || len(places) != want {
			t.Errorf("%v\n%s", places, w.describe(root))
		}
	}
}

// TestDoublesMakeRoomInNeed: a shard without which the object could be lost next is made although more than a third of
// the members vanished together, and although those left have a shard each.
func TestDoublesMakeRoomInNeed(t *testing.T) {
	t.Parallel()
	w := racks(t, 5)
	root, left := number(1), w.nodes[2:]
	w.ask(w.nodes[0], root, 1<<16, meta.Target{Data: 2, Parity: 1})
	target := w.nodes[0].objects[root].OwnTarget(w.nodes[0].id)
	for i, piece := range []Piece{Shard(0), Shard(0), Shard(2)} {
		o := w.give(left[i], root, piece, w.nodes[0].id, target)
		for _, other := range left {
			o.At(left[i].cluster.View(w.now), w.p, w.now).Claimed(other.id)
		}
	}
	w.stop(w.nodes[0])
	w.stop(w.nodes[1])
	w.run(10 * w.p.TrimWait)
	if !left[0].cluster.View(w.now).LastOnly {
		t.Error("the members do not count as vanished together")
	}
	if places := w.places(root).without(w.nodes[0].id).without(w.nodes[1].id); places.covered(3) != 3 {
		t.Errorf("%v\n%s", places, w.describe(root))
	}
}
