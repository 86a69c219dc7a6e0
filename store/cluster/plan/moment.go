package plan

import (
	"cmp"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Moment is an object at one time, and the members as this node sees them then. It is made for one decision or report:
// its methods note in the object what they decide.
type Moment struct {
	*Object
	v   *View
	p   Params
	now time.Time
}

// At returns the object as of now, with a view of the members.
func (o *Object) At(v *View, p Params, now time.Time) Moment { return Moment{o, v, p, now} }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// held returns the copies that count, this node's own first if that does. Of members that share a bucket only one is
// listed.
func (m Moment) held() (list copies) {
	list = make(copies, 0, 1+len(m.seen))
	var buckets places
	add := func(h *viewed, piece Piece) {
		if buckets.sameBucket(h.Place) {
			return
		}
		if isBucket(h.Place.Domain) {
			buckets.add(h.Place)
		}
		list = append(list, holding{h.ID, piece})
	}
	if self := m.v.find(m.v.Self); m.leave.began.IsZero() && (self == nil || self.counts()) {
		add(cmp.Or(self, &viewed{Member: Member{ID: m.v.Self}}), m.Own) // also before its first offer
	}
	for i := range m.seen {
		if s := &m.seen[i]; s.id != m.v.Self && s.counted(m) {
			add(m.v.find(s.id), s.piece)
		}
	}
	return list
}

// holders returns the copies that count, without this node's own if that is not here.
func (m Moment) holders() copies {
	if m.Here {
		return m.held()
	}
	return m.held().without(m.v.Self)
}

// AskOf is Ask for the target of an origin that may be no member: the view says whether it is one.
func (m Moment) AskOf(origin ID, t meta.Target) bool {
	return m.take(Asked{Origin: origin, Target: t, Since: m.now, stranger: m.v.find(origin) == nil})
}

// Claimed notes that a member seems to hold a copy: it challenged this node, told it targets, or
// was named by another holder. It is challenged next, or if it had no copy lately, a grace after that was asked; one
// tick after, while copies are missing, as it may be the one that got the copy.
func (m Moment) Claimed(id ID) {
	if id == m.v.Self || m.v.find(id) == nil {
		return
	}
	n := len(m.seen)
	s := m.at(id)
	switch {
	case s == nil:
	case len(m.seen) > n:
		m.rest = rest{}
	case s.proof == absent:
		wait := m.p.Grace
		if !m.short.IsZero() {
			wait = m.p.Tick
		}
		s.claimed = true
		if due := later(s.asked.Add(wait), m.now); due.Before(s.due) {
			s.due, m.rest = due, rest{}
		}
	}
}

// Told is the message of a holder of an object to another one: the targets, and which members hold it.
type Told struct {
	Root    b3.Root
	Asked   []Asked // at most MaxTargets; Since is not told
	Holders []ID    // at most MaxSeen
}

// Has reports whether the targets that were told include one.
func (t *Told) Has(a Asked) bool {
	return slices.ContainsFunc(t.Asked, func(b Asked) bool { return a.Origin == b.Origin && a.Target == b.Target })
}

// Tell returns what this node tells other holders.
func (m Moment) Tell() Told { return Told{m.Root, m.Asked(), m.held().ids()} }

// Told notes what another member told, and returns the origins whose targets are new. Nobody changes what this node
// itself asks for: it gives its own target a number above one that differs, so that those who know that take its own.
// Only a node that lost its target takes that over from others. A member that was told nothing yet, and knows all
// targets, is not told them.
func (m Moment) Told(from ID, t Told) (changed []ID) {
	m.weigh(m.v)
	for _, a := range t.Asked {
		var taken bool
		own := m.OwnTarget(m.v.Self)
		switch {
		case a.Origin != m.v.Self:
			taken = m.AskOf(a.Origin, a.Target)
		case own.Seq > 0 && a.Target.Seq >= own.Seq && !a.Target.SameCopies(own):
			taken = m.AskOwn(m.v.Self, own.Next(a.Target, 0), m.now)
		default:
			taken = m.Adopt(m.v.Self, a.Target, m.now)
		}
		if taken {
			changed = append(changed, a.Origin)
		}
	}
	for _, id := range t.Holders {
		m.Claimed(id)
	}
	if s := m.replica(from); s != nil && s.told == 0 &&
		!slices.ContainsFunc(m.asked, func(a Asked) bool { return !t.Has(a) }) {
		s.told = m.version()
	}
	return changed
}

// Proof is that a member proved its copy of an object. It is as old as its challenge.
type Proof struct {
	Holder ID
	Piece  Piece // that it proved
	At     time.Time
}

// Proofs returns the proofs of the copies that count, at most meta.MaxCopies: what a node keeps over a restart.
func (m Moment) Proofs() (list []Proof) {
	for i := range m.seen {
		if s := &m.seen[i]; s.counted(m) && len(list) < meta.MaxCopies {
			list = append(list, Proof{s.id, s.piece, s.at})
		}
	}
	return list
}
