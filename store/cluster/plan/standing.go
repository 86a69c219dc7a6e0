package plan

import (
	"slices"
	"strings"
	"time"

	"allium/protocols/b3"
)

// Standing says whether an object has the copies that its targets ask for, as far as a node knows.
type Standing uint8

// Standings. All but Met have fewer copies that count than are asked for.
const (
	Met         Standing = iota // or nothing is asked for
	Checking                    // copies are being placed, or members that may hold some have not answered yet
	AtRisk                      // copies are missing
	Unreachable                 // so many that the object cannot be read until a member answers that may hold one
	Lost                        // so many that it cannot be read, and every member said that it holds none
)

// String returns the standing as the API names it.
func (s Standing) String() string {
	return [...]string{"met", "checking", "at_risk", "unreachable", "lost"}[s]
}

// poll is the progress of asking the members for an object since copies are missing.
type poll struct {
	view uint64 // version of the view whose members are asked
	last ID     // those up to this one were asked
	done bool   // all present ones were
}

// Standing returns what is known of the object. here says whether this node's own copy is whole, and sure that it saw
// all copies proved once, so that one that is missing now is known to be lost. Without that, members are waited for
// that have not answered.
func (o *Object) Standing(v *View, p Params, now time.Time, here, sure bool) Standing {
	want, holders := o.Wanted(), o.heldBut(v, p, now, here)
	covered := holders.covered(want)
	if covered == want {
		return Met
	}
	if from, _ := o.from(v, p, now, covered); now.Before(from) {
		return Checking
	}
	if !o.readable(append(holders, o.others(v, here)...)) {
		return o.unread(v, p, now)
	}
	if sure || !o.short.IsZero() && covered+o.coming(v, p, now) < want {
		return AtRisk
	}
	return Checking
}

// heldBut returns the copies that count, without this node's own if that is not here.
func (o *Object) heldBut(v *View, p Params, now time.Time, here bool) copies {
	holders := o.held(v, p, now)
	if !here {
		holders = holders.without(v.Self)
	}
	return holders
}

// readable reports whether the object can be read from copies.
func (o *Object) readable(c copies) bool { return c.whole() > 0 || len(c.shards()) >= o.least() }

// others returns copies at members that are present, whether or not they count.
func (o *Object) others(v *View, here bool) (list copies) {
	if here {
		list = append(list, holding{v.Self, o.Own})
	}
	for i := range o.seen {
		s := &o.seen[i]
		if m := v.find(s.id); m != nil && !m.Gone && (s.proof == proved || s.proof == leaving) {
			list = append(list, holding{s.id, s.piece})
		}
	}
	return list
}

// open reports whether a member may hold a copy that counts, and has not answered yet. It has a grace for that.
func (s *seen) open(m *viewed, p Params, now time.Time) bool {
	if s.proof != unknown || m == nil || !m.counts() {
		return false
	}
	first := s.first
	if m.Since.After(first) {
		first = m.Since
	}
	return s.first.IsZero() || now.Sub(first) < p.Grace
}

// coming returns how many copies more there may be soon: at members that have not answered, and while somebody waits,
// at those that get one.
func (o *Object) coming(v *View, p Params, now time.Time) (n int) {
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if !o.awaited {
			if s.open(m, p, now) {
				n++
			}
			continue
		}
		next := s.proof == absent && s.fails == 0 && now.Sub(o.short) < p.Grace // it gets one soon
		if s.open(m, p, now) && s.late == 0 || m != nil && m.takes(o.Size) && (s.sending || next) {
			n++
		}
	}
	return n
}

// unread returns the standing of an object that cannot be read from what is known: Checking until all members that are
// present have answered, and its origins and those without a copy were told of it. Those may have removed their
// targets, or find that they have a copy.
func (o *Object) unread(v *View, p Params, now time.Time) Standing {
	if o.poll.view != v.version || !o.poll.done {
		return Checking
	}
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if s.open(m, p, now) {
			return Checking
		}
		waits := s.claimed || s.told == 0 && (s.proof == absent || o.asks(s.id))
		if waits && m != nil && !m.Gone && s.late == 0 {
			return Checking
		}
	}
	for i := range v.members {
		m := &v.members[i]
		said := slices.IndexFunc(o.seen, func(s seen) bool { return s.id == m.ID })
		switch {
		case m.ID == v.Self, said >= 0 && o.seen[said].proof == absent:
		case m.Gone, said >= 0 && o.seen[said].proof == unknown:
			return Unreachable
		}
	}
	return Lost
}

// ask adds members to those that are challenged, as copies are missing that they may hold: all if they are few, else
// those that come first in the object's order. If the object cannot be read, all others follow, MaxSeen at a time.
func (o *Object) ask(v *View, readable bool) {
	if o.poll.view != v.version {
		o.poll = poll{view: v.version}
		for _, id := range v.nearest(&o.Root, askFirst) {
			_ = o.at(id)
		}
	}
	for i := 0; i < len(v.members) && !readable && !o.poll.done; i++ {
		m := &v.members[i]
		if strings.Compare(string(m.ID), string(o.poll.last)) <= 0 {
			continue
		}
		if !m.Gone && m.ID != v.Self && o.at(m.ID) == nil {
			return
		}
		o.poll.last = m.ID
	}
	o.poll.done = o.poll.done || !readable
}

// nearest returns up to n other members that are present, in the order of an object.
func (v *View) nearest(root *b3.Root, n int) []ID {
	ids := make([]ID, 0, len(v.members))
	for i := range v.members {
		if m := &v.members[i]; m.ID != v.Self && !m.Gone {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) > n {
		ids = v.first(root, ids)[:n]
	}
	return ids
}
