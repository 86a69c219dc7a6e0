package plan

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/store/meta"
)

// severally has members set and remove targets of one object, in turn: of copies, and of the shards of its coding. Each
// has the whole object.
type severally struct {
	*world
	coding meta.Target
}

// Of the copies, and of the coding.
var wholeRoot, codingRoot = number(1), number(2)

// asks has a node ask for copies, for shards if n is −1, and for nothing if it is 0.
func (s *severally) asks(x *node, n int) {
	set := func(root [32]byte, t meta.Target) {
		o := x.objects[root]
		if t.Wants() || o != nil && o.OwnTarget(x.id).Wants() {
			s.ask(x, root, 1<<18, t)
		}
	}
	if n < 0 {
		set(codingRoot, s.coding)
		set(wholeRoot, meta.Target{})
		return
	}
	set(wholeRoot, meta.Target{Copies: n})
	set(codingRoot, meta.Target{})
}

// TestTargetsOfSeveral: whatever targets members set, change and remove while all of them are up, none says that an
// object is lost, or out of reach.
func TestTargetsOfSeveral(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		for i := range rapid.IntRange(3, 5).Draw(t, "nodes") {
			w.add(Place{Domain: string(rune('a' + i))}, 1<<30)
		}
		s := &severally{w, meta.Target{Data: 2, Parity: 1}}
		w.run(2 * w.p.Grace)
		most := w.watch()
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			x := w.nodes[rapid.IntRange(0, 2).Draw(t, "node")]
			s.asks(x, rapid.SampledFrom([]int{4, 3, 2, -1, -1, 0, 0}).Draw(t, "copies"))
			w.run(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
		}
		w.run(2 * w.p.Grace)
		if most[Lost]+most[Unreachable] > 0 {
			t.Fatalf("%v\n%s%s", most, w.describe(wholeRoot), w.describe(codingRoot))
		}
	})
}

// TestOnlyWholeCopy: an object that was coded just now is here whole, and no member has a shard yet. It is not lost,
// nor are those whose holders are about to drop their shards, as they heard earlier that the target was removed.
func TestOnlyWholeCopy(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	for _, answers := range [][]Answer{{Absent, Absent}, {Leaving, Absent}, {Leaving, Leaving}, {Busy, Absent}} {
		for _, own := range []Piece{Whole, Shard(0)} {
			o := NewObject(number(1), 100, now)
			o.Own = own
			o.Ask("member-1", meta.Target{Data: 2, Parity: 1, Seq: uint64(now.UnixMilli())}, now)
			o.At(v, p, now).Plan()
			for i, a := range answers {
				o.Answered(ID([]string{"member-1", "member-2"}[i]), a, Shard(i+1), p, now)
			}
			later := now.Add(2 * p.Grace)
			o.At(v, p, later).Plan()
			readable := own == Whole || slices.Contains(answers, Leaving)
			if s := o.At(v, p, later).Standing(); (s == Lost || s == Unreachable) && readable {
				t.Errorf("with piece %d here, and %v of others, it is %s", own, answers, s)
			}
		}
	}
}
