package plan

import (
	"slices"
	"time"
)

// from returns from when on copies that are missing are made: within the grace after a target was set its origin does
// that, at once. own says that this node is that one. A node that does not remember its members waits until it has
// heard them. covered is how many places copies take.
func (m Moment) from(covered int) (from time.Time, own bool) {
	since := m.short
	if since.IsZero() {
		since = m.now
	}
	from = later(since, m.v.Known)
	for _, a := range m.asked {
		if a.Origin == m.v.Self {
			if m.now.Sub(time.UnixMilli(int64(a.Target.Seq))) < m.p.Grace { // also before a restart
				return since, true
			}
		} else if m.adds(a, covered) {
			from = later(from, a.Since.Add(m.p.Grace))
		}
	}
	return from, false
}

// turn returns when this node repairs the object: as from says, and one grace later for each holder that is before it
// in the object's order. A draining holder is before all others.
func (pl *planning) turn() time.Time {
	if self := pl.v.find(pl.v.Self); self != nil && self.Draining {
		return pl.short
	}
	from, own := pl.from(pl.covered)
	if own {
		return from
	}
	ids, drains := []ID{pl.v.Self}, false
	for i := range pl.seen {
		if s := &pl.seen[i]; s.id != pl.v.Self && s.proof == proved {
			if s.counted(pl.Moment) {
				ids = append(ids, s.id)
			}
			m := pl.v.find(s.id)
			drains = drains || m != nil && m.Draining && !m.Gone && !m.Broken
		}
	}
	before := max(slices.Index(pl.v.first(&pl.Root, ids), pl.v.Self), 0)
	if drains { // it hands its copy over
		before++
	}
	return from.Add(time.Duration(before) * pl.p.Grace)
}

// send adds a send for each missing copy, once it is this node's turn. If only last copies are repaired, the object
// gets one copy more than it needs to be read. Copies on their way count, and so do members that have not answered
// their first challenges, for a grace unless copies are awaited.
func (pl *planning) send() {
	want := pl.want
	if pl.v.LastOnly {
		want = min(want, pl.least()+1)
	}
	if pl.covered >= want || pl.now.Before(pl.turn()) {
		return
	}
	holders := len(pl.holders)
	held, avoid := pl.holders.ids(), []ID{pl.v.Self}
	var sent []Piece
	open := false
	for i := range pl.seen {
		s := &pl.seen[i]
		m := pl.v.find(s.id)
		if s.sending {
			sent = append(sent, s.sent)
		}
		if m == nil || slices.Contains(held[:holders], s.id) {
			continue
		}
		switch {
		case !m.counts():
		case pl.Awaited && s.proof == unknown && s.late > 0 && !s.sending:
			avoid = append(avoid, s.id)
		case s.sending, s.open(pl.Moment):
			held = append(held, s.id)
			open = open || !s.sending
		case pl.now.Before(s.retry), s.proof == proved, s.proof == leaving:
			avoid = append(avoid, s.id)
		}
	}
	n := want - pl.covered - (len(held) - holders)
	if open && pl.data() > 0 && !pl.Awaited {
		n = 0 // its shard may be any of those that are missing
	}
	pieces := make([]Piece, max(n, 0)) // whole copies
	if pl.data() > 0 {
		pieces = pl.holders.missing(pl.want, n, pl.data(), pl.Empty, sent)
	}
	priority := Other // the caller knows how the object is read
	if pl.covered <= pl.least() {
		priority = LastCopy
	}
	for i, c := range pl.v.Place(pl.Root, pl.Size, held, avoid, len(pieces)) {
		s := pl.at(c.ID)
		if s == nil {
			break
		}
		s.sending, s.sent = true, pieces[i]
		pl.actions = append(pl.actions, Action{Kind: Send, To: c.ID, Piece: pieces[i], Priority: priority})
	}
}
