package upkeep

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/meta"
	"allium/store/storetest"
)

// run lets time pass in a test with virtual time.
func run(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var params = plan.TestnetParams()

// fast is a rate that no test reaches.
const fast limits.Bytes = 1 << 30

// TestCopiesOfLostNodesAreRestored: after a member is gone its objects have their copies again, and after
// it came back the copies too many go. That holds for the origin of a target too.
func TestCopiesOfLostNodesAreRestored(t *testing.T) {
	for _, lost := range []string{"a holder", "the origin"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 6, fast)
				run(params.Grace)
				roots := c.pin(c.nodes[0], 8, 1000, 3)
				run(params.Grace)
				c.want(roots, 3)
				if n := c.sent(); n != 16 {
					t.Errorf("%d sends for 8 objects with 3 copies", n)
				}
				x := c.nodes[0]
				if lost == "a holder" {
					h := c.pinned()[roots[0]]
					x = h[len(h)-1]
				}
				x.kill()
				run(5 * params.Grace)
				c.want(roots, 3)
				x.start()
				run(20 * params.TrimWait)
				c.want(roots, 3)
			})
		})
	}
}

// TestRestartsMoveNothing: nodes that restart send nothing, and say busy until they have read their pins.
func TestRestartsMoveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, fast)
		run(params.Grace)
		roots := c.pin(c.nodes[0], 10, 1000, 3)
		run(params.Grace)
		before := c.sent()
		for _, x := range c.nodes {
			x.kill()
			run(params.Grace / 2)
			x.start()
			if a := x.service().Answer(roots[0]); a != plan.Busy {
				t.Errorf("before it has read its pins it answers %d", a)
			}
			run(params.Grace)
		}
		run(5 * params.Grace)
		if n := c.sent() - before; n != 0 {
			t.Errorf("%d sends because of restarts", n)
		}
		c.want(roots, 3)
	})
}

// TestMemberGetsItsShare: objects move to a member that joined, one job after the other, and end with as many
// copies as they had.
func TestMemberGetsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, fast)
		joins := c.nodes[4]
		joins.kill()
		run(2 * params.Grace)
		roots := slices.Concat(c.pin(c.nodes[0], 40, 1000, 2), c.pin(c.nodes[1], 4, 100_000, 2))
		run(5 * params.Grace)
		c.want(roots, 2)
		before := c.sent()
		joins.start()
		run(40 * params.TrimWait)
		c.want(roots, 2)
		got := 0
		for _, at := range c.pinned() {
			if slices.Contains(at, joins) {
				got++
			}
		}
		// Each object has one copy beside its origin's: a quarter of these is the share.
		if moved := c.sent() - before; got < 4 || moved != got {
			t.Errorf("%d objects moved, and it has %d of %d", moved, got, len(roots))
		}
	})
}

// TestOrphans: a copy whose sender never told a target goes, as nobody asks for it. What targets ask for stays.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, fast)
		run(params.Grace)
		roots := c.pin(c.nodes[0], 5, 1000, 3)
		run(params.Grace)
		x := c.nodes[2]
		orphan := storetest.Put(t, x.store, []byte("its sender is gone"))
		if err := x.store.Pin(t.Context(), orphan, store.PinOptions{Label: meta.ClusterLabel}); err != nil {
			t.Fatal(err)
		}
		pinned := func() bool {
			ok, err := x.store.HasPin(t.Context(), orphan, meta.ClusterLabel)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		run(orphanWait / 2)
		x.kill() // what it knows of orphans is gone
		x.start()
		run(orphanWait - params.Grace)
		if !pinned() {
			t.Error("it was dropped before the wait was over")
		}
		run(3 * params.Grace)
		if pinned() {
			t.Error("it is still pinned")
		}
		c.want(roots, 3)
		if _, n, _ := x.service().remembered(); n != 0 {
			t.Errorf("%d orphans are remembered", n)
		}
	})
}

// TestPiecesAreNoOrphans: the pieces of codings that are planned leave room for orphans, and those of codings that are
// forgotten are orphans.
func TestPiecesAreNoOrphans(t *testing.T) {
	s := New(params, Deps{Env: env.Env{Metrics: prometheus.NewRegistry(), Now: time.Now}})
	s.inventory.passes = 1
	shared, own := b3.Root{1}, [2]b3.Root{{2}, {3}}
	var es [2]*entry
	for i := range es {
		es[i] = &entry{Object: plan.NewObject(b3.Root{9, byte(i)}, 1, time.Now())}
		s.inventory.addCoding(es[i], piece{manifest: &erasure.Manifest{
			Layout: erasure.Layout{Size: 1, Data: 2, Parity: 1}, Object: b3.Root{8},
			Outboard: shared, Shards: [][]b3.Root{{own[i], own[i], shared}},
		}})
	}
	orphans := func(want ...b3.Root) {
		t.Helper()
		s.inventory.pass++
		for _, root := range []b3.Root{shared, own[0], own[1]} {
			s.scanner.noteOrphan(root)
		}
		s.scanner.oldOrphans()
		if got := slices.Collect(maps.Keys(s.scanner.orphans)); len(got) != len(want) {
			t.Errorf("%v are orphans, want %v", got, want)
		}
		for _, root := range want {
			if _, ok := s.scanner.orphans[root]; !ok {
				t.Errorf("%v is no orphan", root)
			}
		}
	}
	orphans()
	s.inventory.forget(es[0])
	orphans(own[0])
	s.inventory.addCoding(es[0], piece{manifest: es[0].coded}) // it was found again meanwhile
	orphans()
	s.inventory.forget(es[0])
	s.inventory.forget(es[1])
	orphans(shared, own[0], own[1])
	if len(s.inventory.pieces) > 0 {
		t.Errorf("%d pieces of no coding", len(s.inventory.pieces))
	}
}

// TestRemovedTarget: when a target is removed the copies go after TrimWait, unless another member asks for
// them, or the target is set again.
func TestRemovedTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, fast)
		run(params.Grace)
		roots := c.pin(c.nodes[0], 3, 1000, 3)
		run(params.Grace)
		c.want(roots, 3)
		origin := c.nodes[0].store
		ctx := t.Context()
		// The first is kept by another node's pin, the second's target is set again, the third's is removed.
		other := c.pinned()[roots[0]][1]
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(other.store.Pin(ctx, roots[0], store.PinOptions{Label: "too", Target: meta.Target{Copies: 2}}))
		run(3 * params.Tick)
		for _, root := range roots {
			check(origin.Unpin(ctx, root, "mine"))
		}
		run(params.TrimWait / 2)
		check(origin.Pin(ctx, roots[1], store.PinOptions{Label: "mine", Target: meta.Target{Copies: 3}}))
		for i, root := range roots {
			if n := len(c.pinned()[root]); n < 2 {
				t.Errorf("object %d has %d copies before the wait is over", i, n)
			}
		}
		run(30 * params.TrimWait)
		for i, want := range []int{2, 3, 0} {
			c.want(roots[i:i+1], want)
		}
		for i, x := range c.nodes {
			x.mu.Lock()
			log := slices.Clone(x.dropped)
			x.mu.Unlock()
			slices.SortFunc(log, meta.CompareRoots)
			if i == 0 && slices.Contains(log, roots[2]) || len(slices.Compact(slices.Clone(log))) != len(log) {
				t.Errorf("the audit log of node %d says that it dropped %s, and the object of the origin is %s", i, log,
					roots[2])
			}
		}
		if n, _, _ := c.nodes[0].service().remembered(); n > 2 {
			t.Errorf("%d objects are planned at the origin", n)
		}
	})
}

// TestBelow: the target of a recursive pin holds for what is below the directory, until the pin is gone. A
// restart forgets that as little as a directory that cannot be read stops other work.
func TestBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, fast)
		run(params.Grace)
		origin := c.nodes[0]
		roots := c.pin(origin, 2, 1000, 2) // directories
		for i := range byte(3) {
			roots = append(roots, storetest.Put(t, origin.store, []byte{i}))
		}
		c.below[roots[0]], c.fails = roots[2:], roots[1]
		pin := func(i int) {
			t.Helper()
			err := origin.store.Pin(t.Context(), roots[i], store.PinOptions{
				Label: "tree", Recursive: true, Target: meta.Target{Copies: 3},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		unpin := func(i int) {
			t.Helper()
			if err := origin.store.Unpin(t.Context(), roots[i], "tree"); err != nil {
				t.Fatal(err)
			}
		}
		pin(0)
		pin(1)
		run(params.Grace)
		c.want(roots[:2], 3)
		for _, root := range roots[2:] {
			if n := len(c.pinned()[root]); n != 2 { // and the origin, which has no pin of its own
				t.Errorf("an object below has %d copies at others", n)
			}
		}
		unpin(0)
		run(3 * params.Tick) // nothing is forgotten while a directory cannot be read
		unpin(1)
		run(3 * params.Tick)
		origin.kill()
		origin.start()
		run(30 * params.TrimWait)
		c.want(roots[:2], 2)
		c.want(roots[2:], 0)
	})
}

// TestSmallObjects: many small objects have their copies within a few ticks, and few requests carry
// them.
func TestSmallObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, fast)
		run(params.Grace)
		var roots []b3.Root
		for size := range 5 {
			roots = append(roots, c.pin(c.nodes[0], 250, 300*(size+1), 2)...)
		}
		run(20 * params.Tick)
		c.want(roots, 2)
		if c.sent() != len(roots) || c.puts > 20 {
			t.Errorf("%d objects were sent in %d requests", c.sent(), c.puts)
		}
	})
}

// TestPace: whatever is lost, a node sends no more bytes than its rate allows, over any 10 seconds. That does
// not hold for the copies that somebody waits for who set a target.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1 << 20
		c := newCluster(t, 5, rate)
		run(params.Grace)
		roots := c.pin(c.nodes[0], 200, 256<<10, 2)
		run(20 * time.Second)
		c.want(roots, 2)
		if n := slices.IndexFunc(c.sends, func(s sent) bool { return !s.free }); n >= 0 {
			t.Errorf("send %d of a new target keeps to the rate of repairs", n)
		}
		c.nodes[1].kill()
		run(80 * time.Second)
		c.want(roots, 2)
		repairs := slices.DeleteFunc(slices.Clone(c.sends), func(s sent) bool { return s.free })
		if len(repairs) == 0 {
			t.Fatal("nothing was repaired")
		}
		for i, first := range repairs {
			n := 0
			for _, s := range repairs[i:] {
				if s.from == first.from && s.at.Sub(first.at) < 10*time.Second {
					n += s.size
				}
			}
			if most := 10*rate*105/100 + 1<<20; n > most { // and the burst
				t.Fatalf("a node sent %d bytes within 10 seconds, more than %d", n, most)
			}
		}
	})
}

// TestToldNotDurable: a target that could not be made durable is not acknowledged, and when it is told again it is made
// durable, though the node knows it already.
func TestToldNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, fast)
		run(params.Grace)
		x, from := c.nodes[0], c.nodes[1]
		var told []plan.Told
		for _, root := range c.pin(x, 3, 100, 1) {
			told = append(told, plan.Told{Root: root, Asked: []plan.Asked{{
				Origin: plan.ID(from.id), Target: meta.Target{Copies: 2, Seq: uint64(time.Now().UnixMilli())},
			}}})
		}
		run(3 * params.Tick)
		kept := func() (n int) {
			for p, err := range x.store.Pins(t.Context()) {
				if err == nil && p.Label == originLabel(plan.ID(from.id)) {
					n++
				}
			}
			return n
		}
		x.failing.Store(true)
		if _, err := x.service().Told(t.Context(), from.id, told); status.Of(err) != status.NoSpace {
			t.Errorf("with a full disk: %v", err)
		}
		x.failing.Store(false)
		if n := kept(); n != 0 {
			t.Fatalf("with a full disk the store keeps %d targets", n)
		}
		for range 2 {
			if _, err := x.service().Told(t.Context(), from.id, told); err != nil || kept() != len(told) {
				t.Errorf("when the disk has room: %v, and the store keeps %d targets of %d", err, kept(), len(told))
			}
		}
	})
}

// TestRenounceNotDurable: what a node that is gone asks for stays while the removal cannot be made durable, and can be
// removed afterwards.
func TestRenounceNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, fast)
		run(params.Grace)
		x, from := c.nodes[0], c.nodes[1]
		root := c.pin(x, 1, 100, 1)[0]
		run(3 * params.Tick)
		told := []plan.Told{{Root: root, Asked: []plan.Asked{{
			Origin: plan.ID(from.id), Target: meta.Target{Copies: 2, Seq: uint64(time.Now().UnixMilli())},
		}}}}
		if _, err := x.service().Told(t.Context(), from.id, told); err != nil {
			t.Fatal(err)
		}
		from.kill()
		run(2 * params.Grace)
		asks := func() bool {
			s, v := x.service(), x.view()
			s.inventory.mu.Lock()
			defer s.inventory.mu.Unlock()
			return slices.ContainsFunc(s.inventory.asking(root, v), func(a Requester) bool {
				return a.Origin == plan.ID(from.id)
			})
		}
		x.failing.Store(true)
		if err := x.service().Renounce(t.Context(), root, from.id); status.Of(err) != status.NoSpace || !asks() {
			t.Errorf("with a full disk: %v, and the node still asks: %v", err, asks())
		}
		x.failing.Store(false)
		if err := x.service().Renounce(t.Context(), root, from.id); err != nil || asks() {
			t.Errorf("when the disk has room: %v, and the node still asks: %v", err, asks())
		}
	})
}

// TestTold: what a member tells is bounded, must come from a member, and is durable.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, fast)
		run(params.Grace)
		x, from := c.nodes[0], c.nodes[1]
		roots := c.pin(x, 1, 100, 1)
		run(3 * params.Tick)
		ctx := t.Context()
		target := func(seq time.Time) []plan.Told {
			return []plan.Told{{Root: roots[0], Asked: []plan.Asked{{
				Origin: plan.ID(from.id), Target: meta.Target{Copies: 2, Seq: uint64(seq.UnixMilli())},
			}}}}
		}
		malformed := target(time.Now())
		malformed[0].Asked[0].Target.Copies = meta.MaxCopies + 1
		for name, test := range map[string]struct {
			told []plan.Told
			want status.Outcome
		}{
			"the future": {target(time.Now().Add(ahead + time.Minute)), status.BadRequest},
			"malformed":  {malformed, status.BadRequest},
			"good":       {target(time.Now()), status.OK},
		} {
			if _, err := x.service().Told(ctx, from.id, test.told); status.Of(err) != test.want {
				t.Errorf("%s: %v, want %s", name, err, test.want)
			}
		}
		if _, err := x.service().Told(ctx, "a stranger", target(time.Now())); status.Of(err) != status.Forbidden {
			t.Errorf("a stranger: %v", err)
		}
		kept := meta.Target{}
		for p, err := range x.store.Pins(ctx) {
			if err == nil && p.Label == originLabel(plan.ID(from.id)) {
				kept = p.Target
			}
		}
		if kept.Copies != 2 {
			t.Errorf("the store keeps the target %+v", kept)
		}
		// A third member says that this one asks for more, and then for nothing.
		for _, n := range []int{3, 0} {
			time.Sleep(time.Second)
			forged := target(time.Now())
			forged[0].Asked[0].Target.Copies = n
			if _, err := x.service().Told(ctx, c.nodes[2].id, forged); err != nil {
				t.Fatal(err)
			}
			if o, err := x.service().Object(roots[0], false); err != nil || o.Wanted != 3 {
				t.Errorf("after a third member told of %d copies %d are wanted, %v", n, o.Wanted, err)
			}
		}
		time.Sleep(time.Second)
		fewer := target(time.Now())
		if _, err := x.service().Told(ctx, from.id, fewer); err != nil {
			t.Fatal(err)
		}
		if o, err := x.service().Object(roots[0], false); err != nil || o.Wanted != 2 {
			t.Errorf("the member itself asks for 2 copies, and %d are wanted, %v", o.Wanted, err)
		}
		answer, err := x.service().Told(ctx, from.id, []plan.Told{{Root: b3.Root{1}}})
		if err != nil || len(answer) != 1 || len(answer[0].Asked) != 0 {
			t.Errorf("of an object that is not here: %+v, %v", answer, err)
		}
		// A pass that had read the pins of an object before it was told does not forget it.
		root := storetest.Put(t, x.store, []byte("not pinned"))
		again := target(time.Now())
		again[0].Root = root
		if _, err := x.service().Told(ctx, from.id, again); err != nil {
			t.Fatal(err)
		}
		s := x.service()
		s.inventory.mu.Lock()
		e := s.inventory.find(root)
		e.pass, e.told, s.inventory.pass = 1, 2, 2
		s.inventory.mu.Unlock()
		if s.inventory.ended(false); s.inventory.active[root] != e {
			t.Error("an object is forgotten that a member told of")
		}
		e.told = 1
		if s.inventory.ended(false); s.inventory.peek(root) != nil {
			t.Error("an object without a target is remembered")
		}
	})
}

// TestTooMany: objects past the bound are counted, and of those the node says that it is busy.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, fast)
		run(params.Grace)
		x := c.nodes[0]
		s := x.service()
		s.inventory.mu.Lock()
		s.inventory.limit = 1
		s.inventory.mu.Unlock()
		roots := c.pin(x, 3, 100, 2)
		run(3 * params.Tick)
		if planned, _, unplanned := s.inventory.counts(); planned != 1 || unplanned != 2 {
			t.Fatalf("%d objects are planned, %d are not", planned, unplanned)
		}
		var answers []plan.Answer
		for _, root := range append(roots, b3.Root{1}) {
			answers = append(answers, x.service().Answer(root))
		}
		slices.Sort(answers)
		want := []plan.Answer{plan.Busy, plan.Busy, plan.Busy, plan.Proved}
		if !slices.Equal(answers, want) {
			t.Errorf("answers are %v, want %v", answers, want)
		}
		refused := 0
		for _, root := range roots {
			p := meta.Pin{Root: root, Target: meta.Target{Copies: 2, Seq: uint64(time.Now().UnixMilli())}}
			if err := s.Pinned(t.Context(), p); status.Of(err) == status.NotReady {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d of 3 pins are refused of which one has room", refused)
		}
	})
}
