package plan

import (
	"slices"
	"time"

	"allium/store/meta"
)

// The bounds of an object that a [Page] takes.
const (
	maxPackedTargets = 4
	maxPackedSeen    = 24
)

// AtRest reports whether the object has just the copies that it wants, each proved, and its latest plan has nothing to
// do at now. A [Page] takes such an object, unless more is known of it than fits: shards, many targets, or members that
// are late.
func (o *Object) AtRest(v *View, now time.Time) bool {
	return o.rest.view == v.version && now.Before(o.rest.until) && o.short.IsZero() && o.Wanted() > 0 &&
		o.leave.began.IsZero() && !now.Before(o.lease.Until) && o.Own == Whole && o.data() == 0 &&
		len(o.asked) <= maxPackedTargets && len(o.seen) <= maxPackedSeen &&
		!slices.ContainsFunc(o.asked, func(a Asked) bool { return a.adopted || !a.Target.Wants() }) &&
		!slices.ContainsFunc(o.seen, v.unsettled)
}

// unsettled reports whether more is known of s than that its holder proved its copy, or has none. Of a member that is
// gone it does not matter.
func (v *View) unsettled(s seen) bool {
	m := v.find(s.id)
	there := m != nil && !m.Gone
	return s.inFlight() || there && (s.took || s.late > 0 || s.proof == leaving || s.proof == unknown)
}

// keeps reports whether a page keeps s. A member that it leaves out is asked again in its turn.
func (o *Object) keeps(s *seen) bool {
	return s.proof == proved || s.proof == absent && (s.fails > 0 || o.asks(s.id))
}

// ResetTargets forgets what is asked for, so that pins say it anew.
func (o *Object) ResetTargets() { o.asked, o.rest = nil, rest{} }

// Knows reports whether the object has a target of a node that is as new as t, and asks for the same. alone says that
// it has no target but that.
func (o *Object) Knows(origin ID, t meta.Target) (known, alone bool) {
	i := slices.IndexFunc(o.asked, func(a Asked) bool { return a.Origin == origin && !a.adopted })
	if i < 0 {
		return false, false
	}
	k := o.asked[i].Target
	known = k.SameCopies(t) && k.Seq >= t.Seq
	return known, known && len(o.asked) == 1
}

// HeldBy reports whether a member is known to have proved a copy.
func (o *Object) HeldBy(id ID) bool {
	return slices.ContainsFunc(o.seen, func(s seen) bool { return s.id == id && s.proof == proved })
}

// ProvedSince reports whether all copies of other members were proved by challenges that are not older than since.
func (o *Object) ProvedSince(since time.Time) bool {
	return !slices.ContainsFunc(o.seen, func(s seen) bool { return s.proof == proved && s.at.Before(since) })
}

// Resting returns until when the object is at rest with a view, the zero time if it is not.
func (o *Object) Resting(v *View) time.Time {
	if o.rest.view != v.version {
		return time.Time{}
	}
	return o.rest.until
}
