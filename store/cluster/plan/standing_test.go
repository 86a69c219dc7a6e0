package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"allium/store/meta"
)

// watch has what the nodes say of their objects noted every tenth of a tick: the most objects of each standing at one
// time.
func (w *world) watch() (most map[Standing]int) {
	most = map[Standing]int{}
	var look func()
	look = func() {
		for _, n := range w.nodes {
			all := map[Standing]int{}
			for root := range n.disk {
				if n.alive && n.objects[root] != nil {
					all[w.standing(n, root)]++
				}
			}
			for s, i := range all {
				most[s] = max(most[s], i)
			}
		}
		w.after(w.p.Tick/10, look)
	}
	look()
	return most
}

// wantWhole fails the test if a node said that an object is at risk or lost.
func wantWhole(t *testing.T, what string, most map[Standing]int) {
	t.Helper()
	if n := most[AtRisk] + most[Unreachable] + most[Lost]; n > 0 {
		t.Errorf("%s: %v", what, most)
	}
	clear(most)
}

// TestWholeIsNotLost: while nodes store one object after the other, while each of them restarts, and after all lost
// power together, no node says that an object is at risk or lost. Nothing is sent but what is new.
func TestWholeIsNotLost(t *testing.T) {
	t.Parallel()
	for _, p := range []Params{TestnetParams(), DefaultParams()} {
		for _, forget := range []bool{false, true} {
			w := newWorld(t, 5)
			w.p, w.forget = p, forget
			for i := range 6 {
				w.add(Place{Domain: fmt.Sprint("rack-", i)}, 1<<34)
			}
			w.run(2 * p.Grace)
			most := w.watch()
			for i := range 24 {
				target := []meta.Target{{Copies: 3}, {Data: 2, Parity: 1}, {Data: 3, Parity: 2}, {Copies: 2}}[i%4]
				w.ask(w.nodes[i%6], number(i), 1<<20, target)
				w.run(2 * p.Tick)
			}
			w.run(p.Grace)
			wantWhole(t, "adds", most)
			sends := w.sends
			for _, n := range w.nodes {
				w.stop(n)
				w.run(p.Grace * 4 / 10)
				w.start(n)
				w.run(p.Grace)
			}
			wantWhole(t, "restarts", most)
			for _, n := range w.nodes {
				w.stop(n)
			}
			w.run(p.Grace)
			for _, n := range w.nodes {
				w.start(n)
				w.run(p.Tick)
			}
			w.run(2 * p.Grace)
			wantWhole(t, "all lost power", most)
			if w.sends != sends {
				t.Errorf("%d sends because of restarts", w.sends-sends)
			}
			for _, n := range w.nodes {
				for root := range n.disk {
					if s := w.standing(n, root); s != Met {
						t.Errorf("at the end %s says %s", n.id, s)
					}
				}
			}
		}
	}
}

// TestLostIsSaid: an object of which too few shards are left cannot be reached while members are gone that may hold
// more, and is lost when they are back without any. One with a missing copy is at risk. A copy that comes back ends
// that.
func TestLostIsSaid(t *testing.T) {
	t.Parallel()
	w := racks(t, 6)
	root, target := number(1), meta.Target{Data: 3, Parity: 1}
	w.ask(w.nodes[0], root, 1<<16, target)
	w.run(3 * w.p.Grace)
	holders := w.holders(1)
	if len(holders) != 4 {
		t.Fatalf("%d holders", len(holders))
	}
	left := holders[3]
	want := func(what string, want ...Standing) {
		t.Helper()
		if s := w.standing(left, root); !slices.Contains(want, s) {
			t.Errorf("%s: %s\n%s", what, s, w.describe(root))
		}
	}
	want("all are there", Met)
	for _, n := range w.nodes { // nobody takes another one
		n.member.Free = 0
	}
	w.run(w.p.Grace)
	w.stop(holders[1])
	w.run(3 * w.p.Grace / 2)
	want("one is gone", AtRisk)
	w.stop(holders[2])
	w.stop(holders[0])
	w.run(3 * w.p.Grace / 2)
	want("three are gone", Unreachable)
	for _, n := range []*node{holders[0], holders[2]} { // the whole one too
		w.wipe(n)
		w.start(n)
	}
	w.run(3 * w.p.Grace / 2)
	want("two are back with empty disks", Unreachable)
	disk, objects, piece := holders[1].disk, holders[1].objects, holders[1].piece
	w.wipe(holders[1])
	w.start(holders[1])
	w.run(3 * w.p.Grace / 2)
	want("all are back with empty disks", Lost)
	w.revived = true
	w.stop(holders[1])
	holders[1].disk, holders[1].objects, holders[1].piece = disk, objects, piece
	w.start(holders[1])
	w.run(2 * w.p.AuditPeriod)
	want("one shard is there again, and two are not enough", Lost)
	holders[0].disk[root], holders[0].piece[root] = 1<<16, Whole
	o := w.object(holders[0], root, 1<<16)
	o.Own = Whole
	o.Ask(holders[0].id, left.objects[root].Asked()[0].Target, w.now)
	w.run(2 * w.p.AuditPeriod)
	want("the whole object is there again", AtRisk, Met)
}

// TestPollIsBounded: in a cluster with more members than an object remembers each is asked before the object is lost,
// and few of them more than once.
func TestPollIsBounded(t *testing.T) {
	t.Parallel()
	const n = 3 * MaxSeen
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(n, n), false)
	o := NewObject(number(1), 100, now)
	o.Own = Shard(1)
	o.Ask("member-1", meta.Target{Data: 2, Parity: 1, Seq: 1}, now)
	now = now.Add(2 * p.Grace)
	asked := map[ID]int{}
	for i := 0; o.At(v, p, now).Standing() != Lost; i++ {
		if i > 3*n/MaxSeen {
			t.Fatalf("after %d plans it is %s, %d were asked", i, o.At(v, p, now).Standing(), len(asked))
		}
		for _, a := range o.At(v, p, now).Plan() {
			switch a.Kind {
			case Challenge:
				asked[a.To]++
				o.Answered(a.To, Absent, Whole, p, now)
			case Tell:
				o.TellEnded(a.To, a.Version, true)
			case Send:
				o.Sent(a.To, false, p, now)
			}
		}
		now = now.Add(p.Tick)
	}
	if len(asked) != n-1 {
		t.Errorf("%d of %d members were asked", len(asked), n-1)
	}
	for id, i := range asked {
		if i > 4 {
			t.Errorf("%s was asked %d times", id, i)
		}
	}
}

// TestShardsWaitForAnswers: while a member has not answered that may hold any of the missing shards, none of them is
// sent, unless somebody waits. A copy that is missing anyway is.
func TestShardsWaitForAnswers(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(5, 5), false)
	for name, test := range map[string]struct {
		target meta.Target
		awaits bool
		sends  int
	}{
		"shards":         {meta.Target{Data: 2, Parity: 2}, false, 0},
		"awaited shards": {meta.Target{Data: 2, Parity: 2}, true, 1},
		"copies":         {meta.Target{Copies: 4}, false, 1},
	} {
		o := NewObject(number(1), 100, now)
		test.target.Seq = uint64(now.UnixMilli())
		o.Ask("member-0", test.target, now)
		o.Awaited = test.awaits
		sends := func() (n int) {
			for _, a := range o.At(v, p, now).Plan() {
				if a.Kind == Send {
					n++
				}
			}
			return n
		}
		if n := sends(); n != 0 {
			t.Errorf("%s: %d sends before anybody was asked", name, n)
		}
		piece := Whole
		if test.target.Data > 0 {
			piece = Shard(1)
		}
		o.at("member-1") // it does not answer
		o.Answered("member-2", Proved, piece, p, now)
		for _, id := range []ID{"member-3", "member-4"} {
			o.at(id)
			o.Answered(id, Absent, Whole, p, now)
		}
		if n := sends(); n != test.sends {
			t.Errorf("%s: %d sends while a member has not answered, want %d", name, n, test.sends)
		}
	}
}

// TestLostIsAskedAgain: an object is not lost while a member that said that it holds none seems to hold one now.
func TestLostIsAskedAgain(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(2, 2), false)
	o := NewObject(number(1), 100, now)
	o.Own, o.Sure = Shard(0), true
	o.Ask("member-0", meta.Target{Data: 2, Parity: 1, Seq: 1}, now)
	now = now.Add(2 * p.Grace)
	answer := func(a Answer) {
		now = now.Add(p.Tick)
		for _, act := range o.At(v, p, now).Plan() {
			switch act.Kind {
			case Challenge:
				o.Answered(act.To, a, Shard(1), p, now)
			case Tell:
				o.TellEnded(act.To, act.Version, true)
			case Send:
				o.Sent(act.To, false, p, now)
			}
		}
	}
	want := func(when string, want Standing) {
		t.Helper()
		if s := o.At(v, p, now).Standing(); s != want {
			t.Errorf("%s it is %v, want %v", when, s, want)
		}
	}
	answer(Absent)
	answer(Absent)
	want("with none elsewhere", Lost)
	o.At(v, p, now).Claimed("member-1")
	want("when another member challenges", Checking)
	answer(Absent)
	answer(Absent)
	want("when that holds none", Lost)
	o.At(v, p, now).Claimed("member-1")
	answer(Proved)
	want("when that holds one", AtRisk)
}

// TestOldAnswersLoseNothing: an object is lost once each member said that it holds none after the last copies went.
// What it said before, and its answer to a challenge that was sent before, are not enough: it may have got one since.
func TestOldAnswersLoseNothing(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	o := NewObject(number(1), 100, now)
	o.Own = Shard(0)
	o.Ask("member-0", meta.Target{Data: 2, Parity: 1, Seq: 1}, now)
	now = now.Add(2 * p.Grace)
	// plan returns the members that are challenged now, and ends all other actions.
	plan := func() (asked []ID) {
		now = now.Add(p.Tick)
		for _, a := range o.At(v, p, now).Plan() {
			switch a.Kind {
			case Challenge:
				asked = append(asked, a.To)
			case Tell:
				o.TellEnded(a.To, a.Version, true)
			case Send:
				o.Sent(a.To, false, p, now)
			}
		}
		return asked
	}
	want := func(when string, want ...Standing) {
		t.Helper()
		if s := o.At(v, p, now).Standing(); !slices.Contains(want, s) {
			t.Fatalf("%s: %s, want %v", when, s, want)
		}
	}
	if asked := plan(); len(asked) != 2 {
		t.Fatalf("%v are asked", asked)
	}
	o.Answered("member-1", Proved, Shard(1), p, now)
	o.Answered("member-2", Absent, Whole, p, now)
	for range 5 {
		plan()
	}
	want("a shard is missing", Checking, AtRisk)
	now = now.Add(p.AuditPeriod)
	if asked := plan(); len(asked) != 2 {
		t.Fatalf("%v are asked after a time", asked)
	}
	o.Answered("member-1", Absent, Whole, p, now)
	want("a second one is, before the next plan", Checking)
	if asked := plan(); !slices.Equal(asked, []ID{"member-1"}) {
		t.Fatalf("%v are asked when the object cannot be read", asked)
	}
	o.Answered("member-1", Absent, Whole, p, now)
	o.Answered("member-2", Absent, Whole, p, now) // to the challenge from before
	want("an answer is old", Checking)
	if asked := plan(); !slices.Equal(asked, []ID{"member-2"}) {
		t.Fatalf("%v are asked again", asked)
	}
	o.Answered("member-2", Absent, Whole, p, now)
	want("all have answered", Lost)
}
