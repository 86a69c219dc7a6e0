package durability

import (
	"slices"
	"time"
)

// HandedOver reports whether this node's copy is not needed: as many other members as are asked for hold the object,
// and each proved that by a challenge that is not older than since. It does not matter what is asked for no more.
func (o *Object) HandedOver(v *View, p Params, now, since time.Time) bool {
	others := slices.DeleteFunc(o.Holders(v, p, now), func(id ID) bool {
		return id == v.Self || !o.provedSince(id, since)
	})
	return len(others) >= o.Wanted()
}

// ProveSince has the holders challenged in the next plan whose latest proof is older than since.
func (o *Object) ProveSince(since, now time.Time) {
	for i := range o.seen {
		if s := &o.seen[i]; s.proof == proved && s.at.Before(since) && !s.asking {
			s.due, o.rest = now, rest{}
		}
	}
}

// Takers says who could hold the copies that are asked for, this node left out.
type Takers struct {
	Wanted  int
	Members int            // others that hold the object, or that take it
	Refused map[string]int // why others do not, and how many
}

// Takers returns who could hold the copies of the object if this node holds none.
func (o *Object) Takers(v *View, p Params, now time.Time) Takers {
	t := Takers{Wanted: o.Wanted(), Refused: map[string]int{}}
	holders := o.Holders(v, p, now)
	var spread places
	for i := range v.members {
		m := &v.members[i]
		why := m.refusal(o.Size)
		switch {
		case m.ID == v.Self:
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
