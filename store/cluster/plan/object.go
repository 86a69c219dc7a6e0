package plan

import (
	"cmp"
	"slices"
	"time"

	"allium/protocols/b3"
)

// Object is the state of one object that has targets, as a holder knows it: what is asked, which members were seen with
// a copy, and what this node is about to do. It is not safe for concurrent use.
//
// If shards are asked for, Root is the coding manifest, and what is called a copy is a piece: one shard of each
// stripe, or the whole object that is coded.
type Object struct {
	Root b3.Root
	Size int64 // bytes of one copy
	Own  Piece // what this node holds; the caller sets it, and Empty
	// Empty is the number of data shards that have no bytes, at the end of a small object: nobody holds these.
	Empty int

	since time.Time // when this node began to hold it
	asked []Asked   // one of each origin, at most MaxTargets: one place is kept for this node
	seen  []seen    // at most MaxSeen
	short time.Time // since when copies are missing; zero: they are not
	ample time.Time // since when there are too many; zero: there are not
	swept time.Time // when the latest member was asked in turn
	leave leave
	lease Lease
	rest  rest
	poll  poll

	awaited bool // see Await
}

// rest says until when a plan has nothing to do, as long as nothing happens to the object.
type rest struct {
	until time.Time
	view  uint64 // version of the view that it holds for
}

// Await says whether somebody waits for the copies, so that a member is passed over that does not answer its
// first challenge. Otherwise it has a grace to answer, as after a restart of this node members may
// hold copies that it does not know of. It lasts until the next call.
func (o *Object) Await(awaited bool) { o.awaited = awaited }

// proof is the state of a member's copy, as this node knows it.
type proof uint8

const (
	unknown proof = iota // it was not asked yet, or has not answered
	proved               // it proved its copy, at seen.at
	leaving              // it has one that it is about to drop
	absent               // it has none, or could not prove it
)

// toldBefore is the version of a member that was told the targets and is to be told again, as it holds no copy yet.
const toldBefore = 1

// flight says which actions for a member have not ended: Challenge, Send, Tell.
type flight struct{ asking, sending, telling bool }

func (f flight) inFlight() bool { return f.asking || f.sending || f.telling }

// seen is a member that may hold a copy.
type seen struct {
	flight
	id      ID
	proof   proof
	piece   Piece     // that it proved last
	sent    Piece     // that is on its way while sending
	at      time.Time // of the challenge that it proved last
	first   time.Time // when it was first asked; zero: never
	due     time.Time // of the next challenge
	asked   time.Time // of the latest challenge
	told    uint64    // version of the targets that it was told, or toldBefore; zero: none
	took    bool      // it said that it took a copy, and has not proved it since
	claimed bool      // it was absent and seems to hold a copy now, and has not answered since
	late    int       // challenges in a row without an answer, at most maxDoubled
	fails   int       // sends in a row that failed, or after which it did not prove the copy
	retry   time.Time // before it, no send
}

// NewObject returns an object that this node holds and nobody asked for yet.
func NewObject(root b3.Root, size int64, now time.Time) *Object {
	return &Object{Root: root, Size: size, since: now}
}

// Answer returns how this node answers a challenge of its copy: Proved, with a proof, else Leaving
// or Absent. A copy that nobody asked for yet does not count, because its sender may be gone before it
// told the target. A copy that nobody asks for any more does not count either: it goes after Params.TrimWait.
func (o *Object) Answer() Answer {
	switch {
	case len(o.asked) == 0:
		return Absent
	case !o.leave.began.IsZero(), o.Wanted() == 0:
		return Leaving
	}
	return Proved
}

// holderSet tells sets of holders apart.
func holderSet(ids []ID) (v uint64) {
	for _, id := range ids {
		v += id.mix(1)
	}
	return v
}

// mix returns a number for h and the ID.
func (id ID) mix(h uint64) uint64 {
	for i := range len(id) {
		h = mix(h ^ uint64(id[i]))
	}
	return mix(h)
}

// at returns what is known of a member's copy, after it added the member where that is new. It
// returns nil if the object has MaxSeen members that are of use.
func (o *Object) at(id ID) *seen {
	for i := range o.seen {
		if o.seen[i].id == id {
			return &o.seen[i]
		}
	}
	if len(o.seen) == MaxSeen {
		i := slices.IndexFunc(o.seen, func(s seen) bool {
			return s.proof == absent && !s.inFlight()
		})
		if i < 0 {
			return nil
		}
		o.seen[i] = seen{id: id}
		return &o.seen[i]
	}
	o.seen = append(o.seen, seen{id: id})
	return &o.seen[len(o.seen)-1]
}

// Claimed notes that a member seems to hold a copy: it challenged this node, told it targets, or
// was named by another holder. It is challenged next, or if it had no copy lately, a grace after that was asked; one
// tick after, while copies are missing, as it may be the one that got the copy.
func (o *Object) Claimed(v *View, id ID, p Params, now time.Time) {
	if id == v.Self || v.find(id) == nil {
		return
	}
	n := len(o.seen)
	s := o.at(id)
	switch {
	case s == nil:
	case len(o.seen) > n:
		o.rest = rest{}
	case s.proof == absent:
		due := s.asked.Add(p.Grace)
		if !o.short.IsZero() {
			due = s.asked.Add(p.Tick)
		}
		if due.Before(now) {
			due = now
		}
		s.claimed = true
		if due.Before(s.due) {
			s.due, o.rest = due, rest{}
		}
	}
}

// Told is the message of a holder of an object to another one: the targets, and which members hold it.
type Told struct {
	Root    b3.Root
	Asked   []Asked // at most MaxTargets; Since is not told
	Holders []ID    // at most MaxSeen
}

// Tell returns what this node tells other holders.
func (o *Object) Tell(v *View, p Params, now time.Time) Told {
	return Told{Root: o.Root, Asked: slices.Clone(o.asked), Holders: o.Holders(v, p, now)}
}

// Told notes what another member told, and returns the origins whose targets are new. Nobody
// changes what this node itself asks for; only a node that lost its target takes that over from others. A member that
// was told nothing yet, and knows all targets, is not told them.
func (o *Object) Told(from ID, t Told, v *View, p Params, now time.Time) (changed []ID) {
	o.weigh(v)
	for _, a := range t.Asked {
		if o.hears(v, a, now) {
			changed = append(changed, a.Origin)
		}
	}
	for _, id := range t.Holders {
		o.Claimed(v, id, p, now)
	}
	i := slices.IndexFunc(o.seen, func(s seen) bool { return s.id == from && s.told == 0 })
	if i >= 0 && !slices.ContainsFunc(o.asked, func(a Asked) bool { return !t.Has(a) }) {
		o.seen[i].told = o.version()
	}
	return changed
}

// Has reports whether the targets that were told include one.
func (t *Told) Has(a Asked) bool {
	return slices.ContainsFunc(t.Asked, func(b Asked) bool { return a.Origin == b.Origin && a.Target == b.Target })
}

// counted reports whether the copy of s counts: its holder is a member that counts, and its latest
// proof is not older than two audit periods, unless this node did not get to ask for another one.
func (s *seen) counted(v *View, p Params, now time.Time) bool {
	m := v.find(s.id)
	return m != nil && m.counts() && s.proof == proved && (s.late == 0 || now.Sub(s.at) <= 2*p.AuditPeriod)
}

// Holders returns the members whose copies count, this node first if its own does. Of members
// that share a bucket only one is listed.
func (o *Object) Holders(v *View, p Params, now time.Time) []ID {
	return o.held(v, p, now).ids()
}

// held returns the copies that count, as Holders does.
func (o *Object) held(v *View, p Params, now time.Time) (list copies) {
	list = make(copies, 0, 1+len(o.seen))
	var buckets places
	add := func(m *viewed, piece Piece) {
		if buckets.sameBucket(m.Place) {
			return
		}
		if isBucket(m.Place.Domain) {
			buckets.add(m.Place)
		}
		list = append(list, holding{m.ID, piece})
	}
	if m := v.find(v.Self); o.leave.began.IsZero() && (m == nil || m.counts()) {
		add(cmp.Or(m, &viewed{Member: Member{ID: v.Self}}), o.Own) // also before its first offer
	}
	for i := range o.seen {
		if s := &o.seen[i]; s.id != v.Self && s.counted(v, p, now) {
			add(v.find(s.id), s.piece)
		}
	}
	return list
}
