package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"allium/protocols/status"
	"allium/store/meta"
)

// TestPriorities: the last copy goes before others.
func TestPriorities(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(6, 6), false)
	for proved, want := range []Priority{LastCopy, Other} {
		o := NewObject(number(1), 100, now)
		o.Ask("member-0", meta.Target{Copies: 4, Seq: uint64(now.UnixMilli())}, now)
		for i := range 5 {
			answer := Absent
			if i < proved {
				answer = Proved
			}
			o.Answered(ID(fmt.Sprint("member-", i+1)), answer, Whole, p, now)
		}
		i := slices.IndexFunc(o.At(v, p, now).Plan(), func(a Action) bool { return a.Kind == Send && a.Priority == want })
		if i < 0 {
			t.Errorf("with %d proved copies nothing is sent with priority %d", proved, want)
		}
	}
	if !LastCopy.Urgent() || WasMissed.Urgent() {
		t.Error("only the last copy is urgent")
	}
}

// settled returns an object with two proved copies, which are as many as it wants.
func settled(v *View, p Params, now time.Time) *Object {
	o := NewObject(number(1), 100, now)
	o.Ask("member-0", meta.Target{Copies: 3, Seq: 1}, now)
	for range 4 {
		for _, a := range o.At(v, p, now).Plan() {
			switch a.Kind {
			case Challenge:
				o.Answered(a.To, map[bool]Answer{true: Proved, false: Absent}[o.provedSince(a.To, now)], Whole, p, now)
			case Send:
				o.Sent(a.To, true, p, now)
				o.Answered(a.To, Proved, Whole, p, now)
			case Tell:
				o.TellEnded(a.To, a.Version, true)
			}
		}
	}
	return o
}

// TestPlanRests: an object with all its copies costs nothing until the next challenge is due, a member
// changes or something happens to it.
func TestPlanRests(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	list := members(6, 6)
	v := NewView("member-0", list, false)
	rests := func(v *View, o *Object, now time.Time) bool {
		return o.rest.view == v.version && now.Before(o.rest.until)
	}
	o := settled(v, p, now)
	if !rests(v, o, now.Add(time.Minute)) {
		t.Fatalf("it does not rest: %+v", o)
	}
	if rests(v, o, now.Add(p.AuditPeriod)) {
		t.Error("it rests though challenges are due")
	}
	list[1].Free /= 2
	if !rests(NewView("member-0", list, false), o, now) {
		t.Error("less free space of a member wakes it")
	}
	list[1].Gone = true
	if rests(NewView("member-0", list, false), o, now) {
		t.Error("it rests though a member is gone")
	}
	o.Ask("member-0", meta.Target{Copies: 4, Seq: 2}, now)
	if rests(v, o, now) {
		t.Error("it rests with a new target")
	}
}

// BenchmarkPlanSettled: a plan of an object that has all its copies.
func BenchmarkPlanSettled(b *testing.B) {
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(12, 12), false)
	o := settled(v, p, now)
	b.ReportAllocs()
	for b.Loop() {
		_ = o.At(v, p, now).Plan()
	}
}

// TestToldNotBack: a member that told all that this node knows is not told it, and one that knows less is.
func TestToldNotBack(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	asks := func(id ID) Asked { return Asked{Origin: id, Target: meta.Target{Copies: 3, Seq: 7}} }
	for name, test := range map[string]struct {
		told []Asked
		tell bool
	}{
		"all":     {[]Asked{asks("member-1"), asks("member-2")}, false},
		"one":     {[]Asked{asks("member-1")}, true},
		"another": {[]Asked{asks("member-1"), {Origin: "member-2", Target: meta.Target{Copies: 3, Seq: 6}}}, true},
		"none":    {nil, true},
	} {
		o := NewObject(number(1), 100, now)
		for _, id := range []ID{"member-1", "member-2"} {
			o.Ask(id, asks(id).Target, now)
			o.At(v, p, now).Claimed(id)
			o.Answered(id, Proved, Whole, p, now)
		}
		o.At(v, p, now).Told("member-1", Told{Asked: test.told})
		told := map[ID]bool{}
		for _, a := range o.At(v, p, now).Plan() {
			if a.Kind == Tell {
				told[a.To] = true
				o.TellEnded(a.To, a.Version, true)
			}
		}
		if told["member-1"] != test.tell || !told["member-2"] {
			t.Errorf("%s: then it tells %v", name, told)
		}
		// What is new is told all, also a member that told the rest.
		o.Ask("member-0", meta.Target{Copies: 2, Seq: 1}, now)
		n := 0
		for _, a := range o.At(v, p, now).Plan() {
			if a.Kind == Tell {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%s: %d members are told what is new", name, n)
		}
	}
}

// TestAdoptedTarget: a node takes its lost target over from others, and its removal too. What it asks for
// itself nobody changes.
func TestAdoptedTarget(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	o := NewObject(number(1), 100, now)
	told := func(copies int, seq uint64) int {
		t.Helper()
		asked := []Asked{{Origin: "member-0", Target: meta.Target{Copies: copies, Seq: seq}}}
		o.At(v, p, now).Told("member-1", Told{Asked: asked})
		return o.Wanted()
	}
	if n := told(3, 1); n != 3 {
		t.Errorf("a lost target asks for %d copies", n)
	}
	if n := told(0, 2); n != 0 {
		t.Errorf("a lost target that was removed asks for %d copies", n)
	}
	if n := told(3, 1); n != 0 {
		t.Errorf("an older one asks for %d copies", n)
	}
	o.Ask("member-0", meta.Target{Copies: 2, Seq: 3}, now)
	if n := told(0, 4); n != 2 {
		t.Errorf("another member changed the target to %d copies", n)
	}
}

// TestBusyIsNotFailed: a holder that is late still counts, until its proof is two periods old.
func TestBusyIsNotFailed(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	o := NewObject(number(1), 100, now)
	o.Answered("member-1", Proved, Whole, p, now)
	count := func() int { return len(o.At(v, p, now).held()) }
	now = now.Add(p.AuditPeriod)
	o.Answered("member-1", Busy, Whole, p, now)
	if count() != 2 {
		t.Error("a late answer takes a copy away")
	}
	now = now.Add(p.AuditPeriod + time.Second)
	if count() != 1 {
		t.Error("a proof of two periods ago counts")
	}
	o.Answered("member-1", Proved, Whole, p, now)
	if count() != 2 {
		t.Error("a new proof does not count")
	}
	o.Answered("member-1", Absent, Whole, p, now)
	if count() != 1 {
		t.Error("a copy that is not proved counts")
	}
}

// TestClusterIsBounded: offers of more members than the limit are refused, old ones are stale, and
// members that are gone give way.
func TestClusterIsBounded(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	c := NewCluster("self", p, now)
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
