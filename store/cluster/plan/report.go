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

// Met reports whether the targets were met when Plan was last called.
func (o *Object) Met() bool { return o.Wanted() > 0 && o.short.IsZero() }

// Observed returns how many copies count, or how many different shards. here says whether this node's own is there.
func (o *Object) Observed(v *View, p Params, now time.Time, here bool) int {
	holders := o.heldBut(v, p, now, here)
	if o.data() > 0 {
		return holders.covered(o.Wanted())
	}
	return len(holders)
}

// Sending returns how many copies are on their way.
func (o *Object) Sending() (n int) {
	for i := range o.seen {
		if o.seen[i].sending {
			n++
		}
	}
	return n
}

// Status returns what this node knows of the copies. See Standing for here and sure.
func (o *Object) Status(v *View, p Params, now time.Time, here, sure bool) Status {
	s := Status{
		Wanted: o.Wanted(), Observed: o.Observed(v, p, now, here), Standing: o.Standing(v, p, now, here, sure),
	}
	if s.Standing > Checking {
		s.Since = o.short
	}
	if s.Wanted == 0 {
		for _, a := range o.asked {
			if a.Since.After(s.Removed) {
				s.Removed = a.Since
			}
		}
	}
	own := Copy{ID: v.Self, State: StateProved, Piece: o.Own, Here: true}
	switch m := v.find(v.Self); {
	case !here:
		own.State = StateAbsent
	case !o.leave.began.IsZero():
		own.State = StateLeaving
	case m == nil || !m.counts():
		own.State = StateExtra
	}
	s.Copies = append(s.Copies, own)
	for i := range o.seen {
		e := &o.seen[i]
		c := Copy{ID: e.id, State: e.state(v, p, now), Piece: e.piece, LastProof: e.at}
		if !e.asking {
			c.NextAudit = e.due
		}
		s.Copies = append(s.Copies, c)
	}
	return s
}

// state returns what is known of a member's copy, for people.
func (s *seen) state(v *View, p Params, now time.Time) State {
	m := v.find(s.id)
	switch {
	case m == nil || m.Gone:
		return StateGone
	case s.sending:
		return StateSending
	case s.counted(v, p, now):
		return StateProved
	case s.proof == proved && m.counts():
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
