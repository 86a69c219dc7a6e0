package plan

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of an action that a node is to take.
type Kind uint8

// Kinds of actions.
const (
	Challenge Kind = iota // ask To to prove its copy, then call Answered
	Send                  // tell To the targets, send it a copy, tell it the targets again, then call Sent
	Tell                  // tell To the targets and the holders, merge what it answers with Told, then call TellEnded
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

// search says which members were asked for copies that this node does not know of.
type search struct {
	swept time.Time // when the latest member was asked in turn
	poll  poll
	lacks time.Time // since when the object cannot be read from the copies that count; zero: it can
}

// poll is the progress of asking the members for an object since copies are missing.
type poll struct {
	view uint64 // version of the view whose members are asked
	last ID     // those up to this one were asked
	done bool   // all present ones were
}

// planning is a plan of an object in the making.
type planning struct {
	Moment
	want    int    // copies, or different shards, that are asked for
	holders copies // that count
	covered int    // places of want that these take
	actions []Action
}

// Plan returns what this node is to do about its copy of the object and about those of others. If its own is missing
// or damaged it asks others for theirs, and sends nothing. It is called each Params.Tick. Every action ends with a call
// of the method that its kind names; until then it is not returned again.
func (m Moment) Plan() []Action {
	if m.Here && m.now.Before(m.Resting(m.v)) {
		return nil
	}
	m.weigh(m.v)
	pl := &planning{Moment: m, want: m.Wanted()}
	switch {
	case m.Here && m.unwanted(m.now, m.p.TrimWait):
		pl.add(Drop, "")
	case pl.want > 0:
		pl.look()
		if m.Here {
			pl.settle()
		}
	case m.Here:
		pl.challenge()
		pl.tell(m.version(), false)
	}
	return pl.actions
}

// add adds an action.
func (pl *planning) add(kind Kind, to ID) {
	pl.actions = append(pl.actions, Action{Kind: kind, To: to})
}

// settle plans how there come to be just as many copies as are asked for, and notes until when there is nothing to do.
func (pl *planning) settle() {
	if pl.covered < pl.want {
		pl.ample = time.Time{}
		pl.send()
		pl.trimDouble()
		if len(pl.actions) == 0 && slices.ContainsFunc(pl.seen, replica.inFlight) {
			pl.restFor(pl.p.Tick / 4)
		}
		return
	}
	if len(pl.holders) == pl.want {
		pl.ample = time.Time{}
	} else if pl.ample.IsZero() {
		pl.ample = pl.now
	}
	if pl.trim(); len(pl.actions) == 0 && len(pl.holders) == pl.want {
		pl.restFor(pl.p.AuditPeriod)
	}
}

// restFor notes that there is nothing to do for a time, or until the next challenge is due.
func (pl *planning) restFor(d time.Duration) {
	pl.rest = rest{pl.nextChallenge(pl.v, pl.now.Add(d)), pl.v.version}
}

// look finds the copies that count, and what to ask and to tell members. When copies are missing, members that may hold
// some are asked before any are sent.
func (pl *planning) look() {
	pl.holders = pl.Moment.holders()
	switch pl.covered = pl.holders.covered(pl.want); {
	case pl.covered == pl.want:
		pl.short, pl.poll = time.Time{}, poll{}
	case pl.short.IsZero():
		pl.short, pl.leave = pl.now, leave{}
		pl.askAgain(pl.now.Add(pl.p.Grace / 2))
	}
	pl.candidates()
	short := pl.covered < pl.want
	lacks := short && !pl.readable(pl.holders)
	switch {
	case !lacks:
		pl.lacks = time.Time{}
	case pl.lacks.IsZero():
		pl.lacks = pl.now
		pl.doubt(pl.now)
	}
	if lacks || short && !pl.Awaited {
		pl.ask(!lacks)
	}
	pl.challenge()
	version := pl.version()
	if len(pl.holders) > pl.covered { // then all of them must know each other
		version += pl.holders.set()
	}
	pl.tell(version, lacks)
}

// candidates adds to those that are challenged the members that probably hold a copy: the origins, and those that a
// planner chooses first. Once in an audit period it adds another member, each in its turn. So holders that know nothing
// of each other, as after a partition, find each other even if each sees as many copies as it wants.
func (pl *planning) candidates() {
	for _, a := range pl.asked {
		if a.Origin != pl.v.Self && pl.v.find(a.Origin) != nil {
			_ = pl.at(a.Origin)
		}
	}
	fresh := pl.now.Sub(pl.swept) >= pl.p.AuditPeriod
	if fresh || !pl.short.IsZero() {
		for _, c := range pl.v.Place(pl.Root, pl.Size, nil, nil, pl.want) {
			if c.ID != pl.v.Self {
				_ = pl.at(c.ID)
			}
		}
	}
	if n := len(pl.v.members); fresh && n > 0 {
		turn := binary.LittleEndian.Uint64(pl.Root[:]) + uint64(pl.now.UnixNano()/int64(pl.p.AuditPeriod))
		pl.swept = pl.now
		if id := pl.v.members[turn%uint64(n)].ID; id != pl.v.Self {
			_ = pl.at(id)
		}
	}
}

// ask adds members to those that are challenged, as copies are missing that they may hold: all if they are few, else
// those that come first in the object's order. If the object cannot be read, all others follow, MaxSeen at a time.
func (pl *planning) ask(readable bool) {
	if pl.poll.view != pl.v.version {
		pl.poll = poll{view: pl.v.version}
		for _, id := range pl.v.nearest(&pl.Root, askFirst) {
			_ = pl.at(id)
		}
	}
	for i := 0; i < len(pl.v.members) && !readable && !pl.poll.done; i++ {
		m := &pl.v.members[i]
		if strings.Compare(string(m.ID), string(pl.poll.last)) <= 0 {
			continue
		}
		if !m.Gone && m.ID != pl.v.Self && pl.at(m.ID) == nil {
			return
		}
		pl.poll.last = m.ID
	}
	pl.poll.done = pl.poll.done || !readable
}

// challenge adds the challenges that are due. Unless copies are missing, a member that has no
// copy is forgotten then, so that it is challenged again only if something points to it.
func (pl *planning) challenge() {
	pl.seen = slices.DeleteFunc(pl.seen, func(s replica) bool {
		idle := !s.inFlight() && !pl.now.Before(s.due)
		return idle && (pl.v.find(s.id) == nil || pl.short.IsZero() && s.proof == absent && s.fails == 0)
	})
	for i := range pl.seen {
		s := &pl.seen[i]
		if s.asking || s.sending || pl.now.Before(s.due) || !pl.v.present(s.id) {
			continue
		}
		if s.first.IsZero() {
			s.first = pl.now
		}
		s.asking, s.asked = true, pl.now
		pl.add(Challenge, s.id)
	}
}

// tell has those members told that were not told version: those that hold a copy, and origins that hold none. An origin
// that removed its target while this node was away says so in its answer. With all, those are told too that say that
// they hold none: one may have a copy whose sender was lost before it told the targets, and keeps it for them.
func (pl *planning) tell(version uint64, all bool) {
	for i := range pl.seen {
		s := &pl.seen[i]
		holds := s.proof != unknown && (s.proof != absent || all || pl.asks(s.id)) // or is an origin
		if holds && s.told != version && !s.telling && pl.v.present(s.id) {
			s.telling = true
			pl.actions = append(pl.actions, Action{Kind: Tell, To: s.id, Version: version})
		}
	}
}
