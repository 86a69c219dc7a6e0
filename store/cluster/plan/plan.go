package plan

import (
	"encoding/binary"
	"slices"
	"time"
)

// Kind is the kind of an action that a node is to take.
type Kind uint8

// Kinds of actions.
const (
	Challenge Kind = iota // ask To to prove its copy, then call Answered
	Send                  // tell To the targets, send it a copy, tell it the targets again, then call Sent
	Tell                  // tell To the targets and the holders, merge what it answers with Ask, then call TellEnded
	AskLease              // ask To for the lease of this node's copy, then call Leased if it grants
	Drop                  // drop this node's copy: nothing asks for it
)

// Priority orders sends. Lower values go first.
type Priority uint8

// Priorities of sends.
const (
	LastCopy  Priority = iota // one copy less, and the object is lost
	WasMissed                 // a holder could not serve a read lately: the caller raises Other to it
	WasRead                   // it was read lately: the same
	Other
	Moving // no copy is missing: see Move
)

// Urgent reports whether a send is queued even when the queue is full for others.
func (p Priority) Urgent() bool { return p == LastCopy }

// Action is one thing to do for an object.
type Action struct {
	Kind     Kind
	To       ID
	Priority Priority // of Send
	Version  uint64   // of Tell: what to pass to TellEnded
	Piece    Piece    // of Send
}

// Plan returns what this node is to do about its copy of the object and about those of
// others. It is called each Params.Tick. Every action ends with a call of the method that its
// kind names; until then it is not returned again.
func (o *Object) Plan(v *View, p Params, now time.Time) []Action {
	if o.rest.view == v.version && now.Before(o.rest.until) {
		return nil
	}
	o.weigh(v)
	if o.unwanted(now, p.TrimWait) {
		return []Action{{Kind: Drop}}
	}
	want := o.Wanted()
	if want == 0 {
		return o.tell(v, o.version(), false, o.challenge(v, now))
	}
	holders, covered, actions := o.look(v, p, now, true)
	if covered == want {
		if len(holders) == want {
			o.ample = time.Time{}
		} else if o.ample.IsZero() {
			o.ample = now
		}
		actions = o.trim(v, p, now, holders, want, actions)
		if len(actions) == 0 && len(holders) == want {
			o.rest = rest{o.nextChallenge(v, now.Add(p.AuditPeriod)), v.version}
		}
		return actions
	}
	o.ample = time.Time{}
	places := want
	if v.LastOnly {
		want = min(want, o.least()+1)
	}
	if covered < want && !now.Before(o.turn(v, p, now, covered)) {
		actions = o.send(v, p, now, holders, want, places, actions)
	}
	actions = o.trimDouble(v, p, now, holders, actions)
	if len(actions) == 0 && slices.ContainsFunc(o.seen, seen.inFlight) {
		o.rest = rest{o.nextChallenge(v, now.Add(p.Tick/4)), v.version}
	}
	return actions
}

// Look is Plan for a node whose own copy is missing or damaged: the node asks others for theirs, and sends nothing.
func (o *Object) Look(v *View, p Params, now time.Time) []Action {
	o.weigh(v)
	if o.Wanted() == 0 {
		return nil
	}
	_, _, actions := o.look(v, p, now, false)
	return actions
}

// look returns the copies that count, how many places these take, and what to ask and to tell members. When copies are
// missing, members that may hold some are asked before any are sent.
func (o *Object) look(v *View, p Params, now time.Time, here bool) (holders copies, covered int, actions []Action) {
	want := o.Wanted()
	holders = o.heldBut(v, p, now, here)
	switch covered = holders.covered(want); {
	case covered == want:
		o.short, o.poll = time.Time{}, poll{}
	case o.short.IsZero():
		o.short, o.leave = now, leave{}
		o.askAgain(p, now)
	}
	o.candidates(v, want, p, now)
	lacks := covered < want && !o.readable(holders)
	if lacks || covered < want && !o.awaited {
		o.ask(v, !lacks)
	}
	version := o.version()
	if len(holders) > covered { // then all of them must know each other
		version += holderSet(holders.ids())
	}
	return holders, covered, o.tell(v, version, lacks, o.challenge(v, now))
}

// askAgain has those challenged again that were about to drop their copy: they stay as copies are
// missing now. They get half of the grace to see that as well, in which no copy is sent in their place.
func (o *Object) askAgain(p Params, now time.Time) {
	for i := range o.seen {
		if s := &o.seen[i]; s.proof == leaving {
			s.proof, s.due, s.first = unknown, now.Add(p.Grace/2), time.Time{}
		}
	}
}

// nextChallenge returns when the next challenge is due, at most limit. Members that are gone are not challenged: when
// they come back, the view is another one.
func (o *Object) nextChallenge(v *View, limit time.Time) time.Time {
	for i := range o.seen {
		s := &o.seen[i]
		if s.asking || !s.due.Before(limit) {
			continue
		}
		if m := v.find(s.id); m != nil && !m.Gone {
			limit = s.due
		}
	}
	return limit
}

// candidates adds to those that are challenged the members that probably hold a copy: the
// origins, and those that a planner chooses first. Once in an audit period it adds another member,
// each in its turn. So holders that know nothing of each other, as after a partition, find each
// other even if each sees as many copies as it wants.
func (o *Object) candidates(v *View, want int, p Params, now time.Time) {
	for _, a := range o.asked {
		if a.Origin != v.Self && v.find(a.Origin) != nil {
			_ = o.at(a.Origin)
		}
	}
	fresh := now.Sub(o.swept) >= p.AuditPeriod
	if fresh || !o.short.IsZero() {
		for _, c := range v.Place(o.Root, o.Size, nil, nil, want) {
			if c.ID != v.Self {
				_ = o.at(c.ID)
			}
		}
	}
	if n := len(v.members); fresh && n > 0 {
		turn := binary.LittleEndian.Uint64(o.Root[:]) + uint64(now.UnixNano()/int64(p.AuditPeriod))
		o.swept = now
		if id := v.members[turn%uint64(n)].ID; id != v.Self {
			_ = o.at(id)
		}
	}
}

// challenge returns the challenges that are due. Unless copies are missing, a member that has no
// copy is forgotten then, so that it is challenged again only if something points to it.
func (o *Object) challenge(v *View, now time.Time) (actions []Action) {
	o.seen = slices.DeleteFunc(o.seen, func(s seen) bool {
		idle := !s.inFlight() && !now.Before(s.due)
		return idle && (v.find(s.id) == nil || o.short.IsZero() && s.proof == absent && s.fails == 0)
	})
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if s.asking || s.sending || m == nil || m.Gone || now.Before(s.due) {
			continue
		}
		if s.first.IsZero() {
			s.first = now
		}
		s.asking, s.asked = true, now
		actions = append(actions, Action{Kind: Challenge, To: s.id})
	}
	return actions
}

// tell returns the members that were not told version: those that hold a copy, and origins that hold none. An origin
// that removed its target while this node was away says so in its answer. With all, those are told too that say that
// they hold none: one may have a copy whose sender was lost before it told the targets, and keeps it for them.
func (o *Object) tell(v *View, version uint64, all bool, actions []Action) []Action {
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if s.told == version || s.telling || m == nil || m.Gone {
			continue
		}
		if s.proof == unknown || s.proof == absent && !all && !o.asks(s.id) {
			continue
		}
		s.telling = true
		actions = append(actions, Action{Kind: Tell, To: s.id, Version: version})
	}
	return actions
}

// from returns from when on copies that are missing are made: within the grace after a target was set its origin does
// that, at once. own says that this node is that one. A node that does not remember its members waits until it has
// heard them. covered is how many places copies take.
func (o *Object) from(v *View, p Params, now time.Time, covered int) (from time.Time, own bool) {
	since := o.short
	if since.IsZero() {
		since = now
	}
	if from = since; v.Known.After(from) {
		from = v.Known
	}
	for _, a := range o.asked {
		if a.Origin == v.Self {
			if now.Sub(time.UnixMilli(int64(a.Target.Seq))) < p.Grace { // also before a restart
				return since, true
			}
		} else if end := a.Since.Add(p.Grace); end.After(from) && o.adds(a, covered) {
			from = end
		}
	}
	return from, false
}

// adds reports whether only the target of a member asks for what is missing: older ones ask for less, and have that.
func (o *Object) adds(a Asked, covered int) bool {
	older := 0
	for _, b := range o.asked {
		if !b.stranger && b.Since.Before(a.Since) {
			older = max(older, o.places(b.Target))
		}
	}
	return !a.stranger && covered >= older && o.places(a.Target) > older
}

// turn returns when this node repairs the object: as from says, and one grace later for each holder that is before it
// in the object's order. A draining holder is before all others.
func (o *Object) turn(v *View, p Params, now time.Time, covered int) time.Time {
	if self := v.find(v.Self); self != nil && self.Draining {
		return o.short
	}
	from, own := o.from(v, p, now, covered)
	if own {
		return from
	}
	ids := []ID{v.Self}
	for i := range o.seen {
		if s := &o.seen[i]; s.id != v.Self && s.counted(v, p, now) {
			ids = append(ids, s.id)
		}
	}
	before := max(slices.Index(v.first(&o.Root, ids), v.Self), 0)
	if o.handsOver(v) {
		before++
	}
	return from.Add(time.Duration(before) * p.Grace)
}

// least returns how many copies the object is lost without.
func (o *Object) least() int { return max(o.data(), 1) }

// send returns the sends that are missing from want copies, which are of so many places. Copies on their way count,
// and so do members that have not answered their first challenges, for a grace unless copies are awaited.
func (o *Object) send(
	v *View, p Params, now time.Time, holders copies, want, places int, actions []Action,
) []Action {
	held, avoid := holders.ids(), []ID{v.Self}
	var sent []Piece
	open := false
	for i := range o.seen {
		s := &o.seen[i]
		m := v.find(s.id)
		if s.sending {
			sent = append(sent, s.sent)
		}
		if m == nil || slices.Contains(held[:len(holders)], s.id) {
			continue
		}
		switch {
		case !m.counts():
		case o.awaited && s.proof == unknown && s.late > 0 && !s.sending:
			avoid = append(avoid, s.id)
		case s.sending, s.open(m, p, now):
			held = append(held, s.id)
			open = open || !s.sending
		case now.Before(s.retry), s.proof == proved, s.proof == leaving:
			avoid = append(avoid, s.id)
		}
	}
	covered := holders.covered(places)
	n := want - covered - (len(held) - len(holders))
	if open && o.data() > 0 && !o.awaited {
		n = 0 // its shard may be any of those that are missing
	}
	pieces := make([]Piece, max(n, 0)) // whole copies
	if o.data() > 0 {
		pieces = holders.missing(places, n, o.data(), o.Empty, sent)
	}
	for i, c := range v.Place(o.Root, o.Size, held, avoid, len(pieces)) {
		s := o.at(c.ID)
		if s == nil {
			break
		}
		s.sending, s.sent = true, pieces[i]
		actions = append(actions, Action{Kind: Send, To: c.ID, Piece: pieces[i], Priority: o.priority(covered)})
	}
	return actions
}

// priority returns how urgent a send is while that many copies are proved. The caller knows how the object is read.
func (o *Object) priority(covered int) Priority {
	if covered <= o.least() {
		return LastCopy
	}
	return Other
}
