package plan

import (
	"slices"
	"time"
)

// HandedOver reports whether this node's copy is not needed: other members hold as many copies, or different shards,
// as are asked for, and each proved its own by a challenge that is not older than since. It does not matter what is
// asked for no more.
func (o *Object) HandedOver(v *View, p Params, now, since time.Time) bool {
	return o.provedBy(v, p, now, since).covered(o.Wanted()) == o.Wanted()
}

// provedBy returns the copies of others that count and were proved by challenges that are not older than since.
func (o *Object) provedBy(v *View, p Params, now, since time.Time) copies {
	return slices.DeleteFunc(o.held(v, p, now), func(h holding) bool {
		return h.id == v.Self || !o.provedSince(h.id, since)
	})
}

// ProveSince has the holders challenged in the next plan whose latest proof is older than since.
func (o *Object) ProveSince(since, now time.Time) {
	for i := range o.seen {
		if s := &o.seen[i]; s.proof == proved && s.at.Before(since) && !s.asking {
			s.due, o.rest = now, rest{}
		}
	}
}

// Takers says who could hold the copies that are asked for.
type Takers struct {
	Wanted  int
	Members int            // that hold the object, or that take it
	Refused map[string]int // why others do not, and how many
}

// Takers returns who could hold the copies of the object: this node only if its own is here and stays.
func (o *Object) Takers(v *View, p Params, now time.Time, here bool) Takers {
	t := Takers{Wanted: o.Wanted(), Refused: map[string]int{}}
	holders := o.Holders(v, p, now)
	var spread places
	for i := range v.members {
		m := &v.members[i]
		why := m.refusal(o.Size)
		switch {
		case m.ID == v.Self && !here:
		case why != "" && !slices.Contains(holders, m.ID):
			t.Refused[why]++
		case spread.sameBucket(m.Place):
			t.Refused["shares its bucket with another"]++
		default:
			spread.add(m.Place)
			t.Members++
		}
	}
	return t
}

// handsOver returns whether another holder is draining, so that it is its turn before that of all others to make
// copies: it hands its own over.
func (o *Object) handsOver(v *View) bool {
	return slices.ContainsFunc(o.seen, func(s seen) bool {
		m := v.find(s.id)
		return m != nil && s.id != v.Self && s.proof == proved && m.Draining && !m.Gone && !m.Broken
	})
}
