package plan

import (
	"slices"
	"time"
)

// Move returns a send that brings the copies of a settled object nearer to where Place wants them, as after a
// member joined. It adds a copy; the trimming that follows drops the one of the holder that comes last, by the
// proofs that every drop needs. So a move never makes copies fewer, and it ends: the holders that stay
// come before the one that goes. ok is false if there is nothing to move.
//
// An object is settled when it has just as many copies as it wants, and its plan has nothing to do. Only its first
// holder moves it, and only to a member that is present for Params.AuditPeriod without a break. If only is not empty,
// another member than that gets nothing. The caller calls Sent, or Skipped, as after Plan.
func (o *Object) Move(v *View, p Params, only ID, now time.Time) (a Action, ok bool) {
	if o.rest.view != v.version || !now.Before(o.rest.until) || v.LastOnly {
		return a, false
	}
	want := o.Wanted()
	holders := o.held(v, p, now)
	if want == 0 || len(holders) != want || v.first(&o.Root, holders.ids())[0] != v.Self {
		return a, false
	}
	to, piece, ok := o.better(v, holders, want)
	if !ok || only != "" && to.ID != only || to.Since.IsZero() || now.Sub(to.Since) < p.AuditPeriod {
		return a, false
	}
	s := o.at(to.ID)
	if s == nil || s.sending || s.proof == proved || now.Before(s.retry) {
		return a, false
	}
	s.sending, s.sent, o.rest = true, piece, rest{}
	return Action{Kind: Send, To: to.ID, Piece: piece, Priority: Moving}, true
}

// better returns the first member that should hold the object and does not, and the piece for it: that of the
// holder that is trimmed then. ok is false if there is none, or if the new copy would be the one that goes.
func (o *Object) better(v *View, holders copies, want int) (to *viewed, piece Piece, ok bool) {
	ids := holders.ids()
	for _, c := range v.Place(o.Root, o.Size, nil, nil, want) {
		if !slices.Contains(ids, c.ID) {
			to = v.find(c.ID)
			break
		}
	}
	if to == nil {
		return nil, Whole, false
	}
	for _, h := range holders {
		if isBucket(to.Place.Domain) && v.find(h.id).Place.Domain == to.Place.Domain {
			return nil, Whole, false // the two would be one copy
		}
	}
	for _, id := range slices.Backward(v.inOrder(o.Root, append(ids, to.ID))) {
		if id == to.ID {
			break
		}
		if o.asks(id) {
			continue
		}
		i := slices.IndexFunc(holders, func(h holding) bool { return h.id == id })
		piece = holders[i].piece
		return to, piece, o.leaves(v, append(slices.Clone(holders), holding{to.ID, piece}), want) == id
	}
	return nil, Whole, false
}
