package plan

import (
	"fmt"
	"testing"
	"time"

	"allium/store/meta"
)

// told has a member tell an object that origins ask for copies.
func told(o *Object, v *View, now time.Time, copies int, seq uint64, origins ...ID) (changed []ID) {
	var t Told
	for _, id := range origins {
		t.Asked = append(t.Asked, Asked{Origin: id, Target: meta.Target{Copies: copies, Seq: seq}})
	}
	return o.At(v, TestnetParams(), now).Told("member-1", t)
}

// names returns n names that begin with what.
func names(what string, from, n int) (ids []ID) {
	for i := range n {
		ids = append(ids, ID(fmt.Sprint(what, from+i)))
	}
	return ids
}

// TestInventedOrigins: a member that tells of origins that are no members takes no place of others, and what these ask
// for counts only while no member asks.
func TestInventedOrigins(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(20, 20), false)
	o := NewObject(number(1), 100, now)
	told(o, v, now, 32, 9, names("invented-", 0, 16)...)
	told(o, v, now, 32, 9, names("invented-", 16, 16)...)
	if n := o.Wanted(); n != strangerCopies {
		t.Errorf("strangers ask for %d copies, and nobody else does", n)
	}
	if !o.AskOwn("member-0", meta.Target{Copies: 2, Seq: uint64(now.UnixMilli())}, now) || o.Wanted() != 2 {
		t.Errorf("with a target of its own the node wants %d copies", o.Wanted())
	}
	sends := 0
	o.Awaited = true
	for range 5 {
		for _, a := range o.At(v, p, now).Plan() {
			switch a.Kind {
			case Send:
				sends++
			case Challenge:
				o.Answered(a.To, Absent, Whole, p, now)
			}
		}
		now = now.Add(p.Tick)
	}
	if sends != 1 {
		t.Errorf("%d copies are sent for a target of 2", sends)
	}
	for i, id := range names("member-", 1, 19) { // more than there are places
		if taken := len(told(o, v, now, 3+i, 1, id)) == 1; !taken {
			t.Errorf("%s has no place", id)
		}
	}
	if n := o.Wanted(); n != 3+18 || len(o.Asked()) != MaxTargets || o.OwnTarget("member-0").Copies != 2 {
		t.Errorf("%d copies are wanted, %d nodes ask, and this one asks for %v", n,
			len(o.Asked()), o.OwnTarget("member-0"))
	}
	for _, a := range o.Asked() {
		if v.find(a.Origin) == nil {
			t.Errorf("%s, which is no member, has a place", a.Origin)
		}
	}
	// of all places the one of a member that asks for less than all others
	if len(told(o, v, now, 2, 1, "member-1")) > 0 {
		t.Error("a target that asks for fewer copies than all takes a place")
	}
}

// TestOriginsThatAreGone: what a member asked for that was not heard for a week keeps up to three copies, and counts
// for nothing beside what others ask for. When it is back it counts again. So it is after an object was at rest.
func TestOriginsThatAreGone(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	here := members(6, 6)
	v, gone := NewView("member-0", here, false), NewView("member-0", here[:5], false)
	for name, test := range map[string]struct{ others, away int }{
		"alone": {0, 3}, "beside one copy": {1, 1}, "beside more": {4, 4},
	} {
		o := NewObject(number(1), 100, now)
		o.Ask("member-5", meta.Target{Copies: 6, Seq: 1}, now)
		if test.others > 0 {
			o.Ask("member-1", meta.Target{Copies: test.others, Seq: 1}, now)
		}
		for want, v := range map[int]*View{6: v, test.away: gone} {
			o.At(v, p, now).Plan()
			if o.Wanted() != want || o.unwanted(now.Add(time.Hour*1000), p.TrimWait) {
				t.Errorf("%s: %d copies are wanted, want %d", name, o.Wanted(), want)
			}
			page := NewPage(p)
			if !page.Add(o, 0) {
				t.Fatal("the page does not take it")
			}
			k, _ := page.Get(o.Root)
			if n := k.Read(now).Wanted(); n != want {
				t.Errorf("%s: after a rest %d copies are wanted, want %d", name, n, want)
			}
		}
	}
}

// TestKeptForStrangers: a target that is kept for a node that is no member counts as that from the first moment on.
func TestKeptForStrangers(t *testing.T) {
	t.Parallel()
	p, now := TestnetParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(5, 5), false)
	o := NewObject(number(1), 100, now)
	o.At(v, p, now).AskOf("member-1", meta.Target{Copies: 2, Seq: 1})
	for _, id := range names("invented-", 0, 40) {
		o.At(v, p, now).AskOf(id, meta.Target{Copies: 32, Seq: 1})
	}
	if n := o.Wanted(); n != 2 {
		t.Errorf("%d copies are wanted, and the member asks for 2", n)
	}
	for i, id := range names("member-", 2, 3) {
		if !o.At(v, p, now).AskOf(id, meta.Target{Copies: 3 + i, Seq: 1}) {
			t.Errorf("%s has no place", id)
		}
	}
}

// TestForgedOwnTarget: what others believe that this node asks for is put right, with a number that they take, and
// never taken over; that holds for a target that it removed as well.
func TestForgedOwnTarget(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(3, 3), false)
	for _, own := range []meta.Target{{Copies: 2, Seq: 5}, {Seq: 5}} {
		o := NewObject(number(1), 100, now)
		o.AskOwn("member-0", own, now)
		for seq, want := range map[uint64]uint64{4: 5, 5: 6, 90: 91} {
			o := NewObject(number(1), 100, now)
			o.AskOwn("member-0", own, now)
			told(o, v, now, 3, seq, "member-0")
			if got := o.OwnTarget("member-0"); !got.SameCopies(own) || got.Seq != want {
				t.Errorf("%v, told with the number %d, is %v with the number %d", own, seq, got, got.Seq)
			}
		}
	}
}

// TestTargetsRenewed: a member that gives its target a new number again and again, or asks for other numbers of copies,
// does not keep others from repairing what an older target asks for.
func TestTargetsRenewed(t *testing.T) {
	t.Parallel()
	p := TestnetParams()
	v := NewView("member-0", members(8, 8), false)
	for name, copies := range map[string][]int{
		"fewer": {1}, "as many": {3}, "fewer and fewer": {2, 1}, "more": {4}, "more and more": {4, 5}, "none": {0, 1},
	} {
		now := time.Unix(1_700_000_000, 0)
		o := NewObject(number(1), 100, now)
		o.Sure = true
		o.Ask("member-3", meta.Target{Copies: 3, Seq: 1}, now)
		now = now.Add(3 * p.Grace)
		sends, risk := 0, false
		for i := range 40 {
			if i%2 == 0 {
				told(o, v, now, copies[i/2%len(copies)], uint64(i+2), "member-2")
			}
			for _, a := range o.At(v, p, now).Plan() {
				switch {
				case a.Kind == Send:
					sends++
					o.Sent(a.To, false, p, now)
				case a.Kind == Challenge && a.To == "member-1":
					o.Answered(a.To, Proved, Whole, p, now)
				case a.Kind == Challenge:
					o.Answered(a.To, Absent, Whole, p, now)
				case a.Kind == Tell:
					o.TellEnded(a.To, a.Version, true)
				}
			}
			risk = risk || o.At(v, p, now).Standing() == AtRisk
			now = now.Add(p.Grace / 4)
		}
		if sends == 0 || !risk {
			t.Errorf("%s: %d sends, and it is at risk: %v", name, sends, risk)
		}
	}
}
