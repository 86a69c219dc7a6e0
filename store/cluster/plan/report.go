package plan

import (
	"cmp"
	"slices"
	"time"
)

// State is the known state of a member's copy, for people.
type State string

// States of a copy.
const (
	StateUnknown State = "unknown" // it was not asked yet, or has not answered
	StateProved  State = "proved"
	StateLeaving State = "leaving" // it is about to be dropped
	StateAbsent  State = "absent"  // the member has none, or could not prove it
	StateSending State = "sending" // it is on its way
	StateStale   State = "stale"   // proved too long ago to count
	StateGone    State = "gone"    // the member was silent for the grace
	StateExtra   State = "extra"   // proved, at a member whose copies do not count
)

// Readable reports whether a member with a copy in that state can probably serve it.
func (s State) Readable() bool {
	return s == StateProved || s == StateStale || s == StateExtra || s == StateLeaving
}

// Copy is the entry of one member's copy in a report.
type Copy struct {
	ID        ID
	State     State
	Piece     Piece
	LastProof time.Time // of the challenge that it proved last; zero: none
	NextAudit time.Time // when it is challenged next; zero: this node's own, or a challenge is in flight
	Here      bool      // it is this node's own
}

// Status is the state of the copies of an object, as a node knows it.
type Status struct {
	Wanted   int
	Observed int // copies that count
	Standing Standing
	Since    time.Time // since when copies are known to be missing; zero: none is
	Removed  time.Time // when the last target was removed; zero: there is one. Copies go one TrimWait later
	Copies   []Copy    // at most MaxSeen and this node's own
}

// Observed returns how many copies count, or how many different shards.
func (m Moment) Observed() int {
	holders := m.holders()
	if m.data() > 0 {
		return holders.covered(m.Wanted())
	}
	return len(holders)
}

// Status returns what this node knows of the copies.
func (m Moment) Status() Status {
	st := Status{Wanted: m.Wanted(), Observed: m.Observed(), Standing: m.Standing()}
	if st.Standing > Checking {
		st.Since = m.short
	}
	if st.Wanted == 0 {
		for _, a := range m.asked {
			st.Removed = later(st.Removed, a.Since)
		}
	}
	own := Copy{ID: m.v.Self, State: StateProved, Piece: m.Own, Here: true}
	switch self := m.v.find(m.v.Self); {
	case !m.Here:
		own.State = StateAbsent
	case !m.leave.began.IsZero():
		own.State = StateLeaving
	case self == nil || !self.counts():
		own.State = StateExtra
	}
	st.Copies = append(st.Copies, own)
	for i := range m.seen {
		s := &m.seen[i]
		c := Copy{ID: s.id, State: s.state(m), Piece: s.piece, LastProof: s.at}
		if !s.asking {
			c.NextAudit = s.due
		}
		st.Copies = append(st.Copies, c)
	}
	return st
}

// state returns what is known of the copy, for people.
func (s *replica) state(m Moment) State {
	h := m.v.find(s.id)
	switch {
	case h == nil || h.Gone:
		return StateGone
	case s.sending:
		return StateSending
	case s.counted(m):
		return StateProved
	case s.proof == proved && h.counts():
		return StateStale
	case s.proof == proved:
		return StateExtra
	}
	return [...]State{unknown: StateUnknown, leaving: StateLeaving, absent: StateAbsent}[s.proof]
}

// Explained is one member in the choice of where the copies of an object go.
type Explained struct {
	Member
	Chosen int    // 1 for the one that is chosen first; 0: it is not chosen
	Shared Shared // with those that are chosen before it
	Why    string // why it may not get a copy; empty: it may
}

// Explain returns the members in the order in which Place would choose them for n copies of an object of
// size bytes if nobody had one, then the others.
func (v *View) Explain(o *Object, n int) []Explained {
	chosen := v.Place(o.Root, o.Size, nil, nil, n)
	all := make([]Explained, 0, len(v.members))
	for _, m := range v.members {
		e := Explained{Member: m.Member, Why: m.refusal(o.Size)}
		if i := slices.IndexFunc(chosen, func(c Choice) bool { return c.ID == m.ID }); i >= 0 {
			e.Chosen, e.Shared = i+1, chosen[i].Shared
		}
		all = append(all, e)
	}
	last := len(all)
	slices.SortStableFunc(all, func(a, b Explained) int {
		return cmp.Compare(cmp.Or(a.Chosen, last+1), cmp.Or(b.Chosen, last+1))
	})
	return all
}

// HandedOver reports whether this node's copy is not needed: other members hold as many copies, or different shards,
// as are asked for, and each proved its own by a challenge that is not older than since. It does not matter what is
// asked for no more.
func (m Moment) HandedOver(since time.Time) bool {
	return m.provedBy(since).covered(m.Wanted()) == m.Wanted()
}

// provedBy returns the copies of others that count and were proved by challenges that are not older than since.
func (m Moment) provedBy(since time.Time) copies {
	return slices.DeleteFunc(m.held(), func(h holding) bool {
		return h.id == m.v.Self || !m.provedSince(h.id, since)
	})
}

// Takers says who could hold the copies that are asked for.
type Takers struct {
	Wanted  int
	Members int            // that hold the object, or that take it
	Refused map[string]int // why others do not, and how many
}

// Takers returns who could hold the copies of the object: this node only if its own copy stays.
func (m Moment) Takers(stays bool) Takers {
	t := Takers{Wanted: m.Wanted(), Refused: map[string]int{}}
	holders := m.held().ids()
	var spread places
	for i := range m.v.members {
		x := &m.v.members[i]
		why := x.refusal(m.Size)
		switch {
		case x.ID == m.v.Self && !stays:
		case why != "" && !slices.Contains(holders, x.ID):
			t.Refused[why]++
		case spread.sameBucket(x.Place):
			t.Refused["shares its bucket with another"]++
		default:
			spread.add(x.Place)
			t.Members++
		}
	}
	return t
}
