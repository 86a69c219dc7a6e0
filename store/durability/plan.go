package durability

import (
	"slices"
	"time"
)

// Kind is what a node is to do.
type Kind uint8

// Kinds of actions.
const (
	Challenge Kind = iota // ask To to prove its copy, then call Answered
	Send                  // tell To the targets, send it a copy, tell it the targets again, then call Sent
	Tell                  // tell To the targets and the holders, merge what it answers with Ask, then call Told
	AskLease              // ask To for the lease of this node's copy, then call Leased if it grants
	Drop                  // drop this node's copy: nothing asks for it
)

// Action is one thing to do for an object.
type Action struct {
	Kind    Kind
	To      ID
	Urgent  bool   // of Send: at most one copy is left
	Version uint64 // of Tell: what to pass to Told
}

// Plan returns what this node is to do about its copy of the object and about those of
// others. It is called each Params.Tick. Every action ends with a call of the method that its
// kind names; until then it is not returned again.
func (o *Object) Plan(v *View, p Params, now time.Time) []Action {
	if o.unwanted(now, p.TrimWait) {
		return []Action{{Kind: Drop}}
	}
	want := o.Wanted()
	if want == 0 {
		return o.tell(v, o.version(), nil)
	}
	holders := o.Holders(v, p, now)
	if len(holders) < want {
		o.candidates(v, want)
	}
	version := o.version()
	if len(holders) > want { // then all of them must know each other
		version += holderSet(holders)
	}
	actions := o.tell(v, version, o.challenge(v, p, now))
	if len(holders) >= want {
		o.short = time.Time{}
		return o.trim(v, p, now, holders, want, actions)
	}
	o.leave = leave{}
	if o.short.IsZero() {
		o.short = now
	}
	if v.LastOnly {
		want = min(want, 2)
	}
	if len(holders) >= want || now.Before(o.turn(v, p, now)) {
		return actions
	}
	return o.send(v, p, now, holders, want, actions)
}

// candidates adds the members that probably hold a copy to those that are challenged: the
// origins, and those that a planner chooses first.
func (o *Object) candidates(v *View, want int) {
	for _, a := range o.asked {
		if a.Origin != v.Self && v.find(a.Origin) != nil {
			_ = o.at(a.Origin)
		}
	}
	for _, c := range v.Place(o.Root, o.Size, nil, nil, want) {
		if c.ID != v.Self {
			_ = o.at(c.ID)
		}
	}
}

// challenge returns the challenges that are due.
func (o *Object) challenge(v *View, p Params, now time.Time) (actions []Action) {
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if s.asking || s.sending || m == nil || m.Gone || now.Before(s.due) {
			continue
		}
		if s.first.IsZero() {
			s.first = now
		}
		s.asking = true
		actions = append(actions, Action{Kind: Challenge, To: s.id})
	}
	return actions
}

// tell returns the members that hold a copy and were not told version.
func (o *Object) tell(v *View, version uint64, actions []Action) []Action {
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if s.proof != proved || s.told == version || s.telling || m == nil || m.Gone {
			continue
		}
		s.telling = true
		actions = append(actions, Action{Kind: Tell, To: s.id, Version: version})
	}
	return actions
}

// turn returns when this node repairs the object: at once after it set or changed a target
// itself; as a holder that learned of a target, not within the grace in which the origin
// does; else one grace later for each holder that is before it in the object's order.
func (o *Object) turn(v *View, p Params, now time.Time) time.Time {
	from := o.short
	for _, a := range o.asked {
		fresh := now.Sub(a.Since) < p.Grace
		if a.Origin == v.Self && fresh {
			return o.short
		}
		if fresh && a.Since.Add(p.Grace).After(from) {
			from = a.Since.Add(p.Grace)
		}
	}
	ids := []ID{v.Self}
	for i := range o.seen {
		if s := &o.seen[i]; s.id != v.Self && s.counted(v, p, now) {
			ids = append(ids, s.id)
		}
	}
	before := max(slices.Index(v.first(&o.Root, ids), v.Self), 0)
	return from.Add(time.Duration(before) * p.Grace)
}

// send returns the sends that are missing from want copies. Copies on their way count, and
// so do members that have not answered their first challenges, for a grace.
func (o *Object) send(v *View, p Params, now time.Time, holders []ID, want int, actions []Action) []Action {
	held, avoid := slices.Clone(holders), []ID{v.Self}
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if m == nil || slices.Contains(holders, s.id) {
			continue
		}
		switch {
		case !m.counts():
		case s.sending, s.proof == unknown && (s.first.IsZero() || now.Sub(s.first) < p.Grace):
			held = append(held, s.id)
		case now.Before(s.retry), s.proof == proved:
			avoid = append(avoid, s.id)
		}
	}
	for _, c := range v.Place(o.Root, o.Size, held, avoid, want-len(held)) {
		s := o.at(c.ID)
		if s == nil {
			break
		}
		s.sending = true
		actions = append(actions, Action{Kind: Send, To: c.ID, Urgent: len(holders) <= 1})
	}
	return actions
}
