package plan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// longIDs are members with IDs as long as those of peers.
func longIDs(n int) []Member {
	list := members(n, n)
	for i := range list {
		list[i].ID = ID(fmt.Sprintf("%038d", i))
	}
	return list
}

// atRest returns an object with 3 copies that is at rest.
func atRest(tb testing.TB, root b3.Root, v *View, p Params, now time.Time) *Object {
	tb.Helper()
	o := NewObject(root, 4096, now)
	o.Ask(v.Self, meta.Target{Copies: 3, Seq: uint64(now.UnixMilli())}, now)
	for range 20 {
		if o.AtRest(v, now) {
			return o
		}
		for _, a := range o.At(v, p, now).Plan() {
			switch a.Kind {
			case Challenge:
				answer := Absent
				if o.at(a.To).took {
					answer = Proved
				}
				o.Answered(a.To, answer, Whole, p, now)
			case Send:
				o.Sent(a.To, true, p, now)
			case Tell:
				o.TellEnded(a.To, a.Version, true)
			}
		}
	}
	tb.Fatalf("it does not come to rest: %+v", o)
	return nil
}

// TestPage: an object that comes out of a page is the one that was put in, but for rounded times, and rests on.
func TestPage(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView(longIDs(1)[0].ID, longIDs(12), false)
	pg := NewPage(p)
	objs := make([]*Object, 500)
	for i := range objs {
		objs[i] = atRest(t, number(i), v, p, now.Add(time.Duration(i)*time.Second))
		if !pg.Add(objs[i], byte(i)) {
			t.Fatal("an object does not fit")
		}
	}
	pg.Clip()
	if n := cap(pg.recs) / len(objs); n > 60 {
		t.Errorf("an object takes %d bytes", n)
	}
	later := now.Add(10 * time.Minute)
	for i, o := range objs {
		k, ok := pg.Get(o.Root)
		if !ok || pg.Len() != len(objs) || *k.Mark() != byte(i) {
			t.Fatalf("object %d is not there", i)
		}
		u := k.Unpack(v, p, later)
		if !u.AtRest(v, later) || u.Size != o.Size || len(u.At(v, p, later).Plan()) > 0 {
			t.Fatalf("%+v does not rest, was %+v", u, o)
		}
		if u.Wanted() != 3 || u.At(v, p, later).Observed() != 3 || u.OwnTarget(v.Self) != o.OwnTarget(v.Self) {
			t.Fatalf("%+v was %+v", u, o)
		}
		for _, was := range o.At(v, p, later).Proofs() {
			s := u.at(was.Holder)
			if d := was.At.Sub(s.at); s.proof != proved || s.told != o.version() || d < 0 || d > p.step() {
				t.Fatalf("%+v was %+v", s, was)
			}
		}
		if day := later.Add(p.AuditPeriod); k.Unpack(v, p, day).AtRest(v, day) {
			t.Fatal("it rests though it is to be audited")
		}
	}
	for i, o := range objs {
		if i%3 == 0 {
			pg.Remove(o.Root)
		}
	}
	pg.RemoveFunc(func(k Packed) bool { return k.Root() == objs[1].Root })
	for i, o := range objs {
		if _, ok := pg.Get(o.Root); ok != (i%3 != 0 && i != 1) {
			t.Fatalf("after some were removed object %d is there: %t", i, ok)
		}
	}
	all := func(Packed) bool { return true }
	got, err := ReadPage(pg.AppendBinary(nil), p, later, all)
	if err != nil || got.Len() != pg.Len() || !bytes.Equal(got.AppendBinary(nil), pg.AppendBinary(nil)) {
		t.Errorf("the page that was read is another one, %v", err)
	}
	if _, err := ReadPage(pg.AppendBinary(nil), TestnetParams(), later, all); err == nil {
		t.Error("a page with other times is taken")
	}
}

// TestPageKeepsFailures: how often sends to a member failed, and when the next may begin, outlasts a rest.
func TestPageKeepsFailures(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView(longIDs(1)[0].ID, longIDs(12), false)
	o := atRest(t, number(1), v, p, now)
	bad := v.members[7].ID
	for i := range v.members {
		if id := v.members[i].ID; id != v.Self && !o.HeldBy(id) {
			bad = id
		}
	}
	s := o.at(bad)
	s.proof, s.fails, s.retry, s.due = absent, 3, now.Add(5*p.AuditPeriod), now.Add(p.AuditPeriod)
	pg := NewPage(p)
	if !o.AtRest(v, now) || !pg.Add(o, 0) {
		t.Fatal("it is not at rest")
	}
	k, _ := pg.Get(o.Root)
	got := k.Unpack(v, p, now).at(bad)
	if d := s.retry.Sub(got.retry); got.proof != absent || got.fails != 3 || d < 0 || d > p.step() {
		t.Errorf("it is %+v, was %+v", got, s)
	}
}

// TestAtRest: what a page has no place for does not rest.
func TestAtRest(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	list := longIDs(6)
	v := NewView(list[0].ID, list, false)
	for name, change := range map[string]func(o *Object){
		"missing copies":    func(o *Object) { o.Ask(list[0].ID, meta.Target{Copies: 5, Seq: 1 << 60}, now) },
		"a removed target":  func(o *Object) { o.Ask(list[0].ID, meta.Target{Seq: 1 << 60}, now) },
		"another target":    func(o *Object) { o.Ask(list[1].ID, meta.Target{Copies: 3, Seq: 1}, now) },
		"a late member":     func(o *Object) { o.Answered(list[2].ID, Busy, Whole, p, now) },
		"a failed audit":    func(o *Object) { o.Answered(o.seen[0].id, Absent, Whole, p, now) },
		"a lease":           func(o *Object) { o.lease = Lease{Holder: list[2].ID, Until: now.Add(time.Hour)} },
		"an adopted target": func(o *Object) { o.asked[0].adopted = true },
		"a shard":           func(o *Object) { o.Own = Shard(1) },
	} {
		o := atRest(t, number(1), v, p, now)
		if change(o); o.AtRest(v, now) {
			t.Errorf("with %s it is at rest", name)
		}
	}
	o := atRest(t, number(1), v, p, now)
	list[1].Gone = true
	if o.AtRest(NewView(list[0].ID, list, false), now) {
		t.Error("with another view it is at rest")
	}
}

// FuzzPage: no bytes do harm, and what is taken is written as it was read.
func FuzzPage(f *testing.F) {
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView(longIDs(1)[0].ID, longIDs(12), false)
	pg := NewPage(p)
	for i := range 3 {
		pg.Add(atRest(f, number(i), v, p, now), 1)
	}
	good := pg.AppendBinary(nil)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(binary.AppendUvarint([]byte{pageFormat}, uint64(p.step())))
	f.Fuzz(func(t *testing.T, data []byte) {
		pg, err := ReadPage(data, p, now, func(Packed) bool { return true })
		if err != nil {
			return
		}
		for k := range pg.All {
			o := k.Unpack(v, p, now)
			o.Sure = true
			_ = o.At(v, p, now).Plan()
			_ = o.At(v, p, now).Status()
		}
		again, err := ReadPage(pg.AppendBinary(nil), p, now, func(Packed) bool { return true })
		if err != nil || again.Len() != pg.Len() {
			t.Fatalf("what was read is not taken again: %v", err)
		}
	})
}

// BenchmarkUnpack: what it takes to look at an object of a page.
func BenchmarkUnpack(b *testing.B) {
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView(longIDs(1)[0].ID, longIDs(12), false)
	pg := NewPage(p)
	pg.Add(atRest(b, number(1), v, p, now), 0)
	k, _ := pg.Get(number(1))
	b.ReportAllocs()
	for b.Loop() {
		_ = k.Unpack(v, p, now)
	}
}
