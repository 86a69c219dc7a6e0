package plan

import "slices"

// Move returns a send that brings the copies of a settled object nearer to where Place wants them, as after a
// member joined. It adds a copy; the trimming that follows drops the one of the holder that comes last, by the
// proofs that every drop needs. So a move never makes copies fewer, and it ends: the holders that stay
// come before the one that goes. ok is false if there is nothing to move.
//
// An object is settled when it has just as many copies as it wants, and its plan has nothing to do. Only its first
// holder moves it, and only to a member that is present for Params.AuditPeriod without a break. If only is not empty,
// another member than that gets nothing. The caller calls Sent, or Skipped, as after Plan.
func (m Moment) Move(only ID) (a Action, ok bool) {
	if !m.now.Before(m.Resting(m.v)) || m.v.LastOnly {
		return a, false
	}
	pl := planning{Moment: m, want: m.Wanted(), holders: m.held()}
	if pl.want == 0 || len(pl.holders) != pl.want || m.v.first(&m.Root, pl.holders.ids())[0] != m.v.Self {
		return a, false
	}
	to, piece, ok := pl.better()
	if !ok || only != "" && to.ID != only || to.Since.IsZero() || m.now.Sub(to.Since) < m.p.AuditPeriod {
		return a, false
	}
	s := m.at(to.ID)
	if s == nil || s.sending || s.proof == proved || m.now.Before(s.retry) {
		return a, false
	}
	s.sending, s.sent, m.rest = true, piece, rest{}
	return Action{Kind: Send, To: to.ID, Piece: piece, Priority: Moving}, true
}

// better returns the first member that should hold the object and does not, and the piece for it: that of the
// holder that is trimmed then. ok is false if there is none, or if the new copy would be the one that goes.
func (pl *planning) better() (to *viewed, piece Piece, ok bool) {
	ids := pl.holders.ids()
	best := pl.v.Place(pl.Root, pl.Size, nil, nil, pl.want)
	i := slices.IndexFunc(best, func(c Choice) bool { return !slices.Contains(ids, c.ID) })
	if i < 0 {
		return nil, Whole, false
	}
	to = pl.v.find(best[i].ID)
	for _, h := range pl.holders {
		if isBucket(to.Place.Domain) && pl.v.find(h.id).Place.Domain == to.Place.Domain {
			return nil, Whole, false // the two would be one copy
		}
	}
	for _, id := range slices.Backward(pl.v.inOrder(pl.Root, append(ids, to.ID))) {
		if id == to.ID {
			break
		}
		if !pl.asks(id) {
			i = slices.Index(ids, id)
			piece = pl.holders[i].piece
			return to, piece, pl.leaves(append(slices.Clone(pl.holders), holding{to.ID, piece})) == id
		}
	}
	return nil, Whole, false
}
