package plan

import (
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Object is the state of one object that has targets, as a holder knows it: what is asked, which members were seen with
// a copy, and what this node is about to do. It is not safe for concurrent use.
//
// If shards are asked for, Root is the coding manifest, and what is called a copy is a piece: one shard of each
// stripe, or the whole object that is coded.
//
// The caller sets Own, Here, Sure, Awaited and Empty.
type Object struct {
	Root b3.Root
	Size int64 // bytes of one copy
	Own  Piece // what this node holds
	Here bool  // this node's own copy is there, and whole
	// Sure says that this node saw all copies proved once, so that one that is missing now is known to be lost. Without
	// that, members are waited for that have not answered.
	Sure bool
	// Awaited says that somebody waits for the copies, so that a member is passed over that does not answer its
	// first challenge. Otherwise it has a grace to answer, as after a restart of this node members may
	// hold copies that it does not know of.
	Awaited bool

	targets
	replicas
	short time.Time // since when copies are missing; zero: they are not
	search
	trimming
	rest rest
}

// rest says until when a plan has nothing to do, as long as nothing happens to the object.
type rest struct {
	until time.Time
	view  uint64 // version of the view that it holds for
}

// NewObject returns an object that this node holds and nobody asked for yet.
func NewObject(root b3.Root, size int64, now time.Time) *Object {
	return &Object{Root: root, Size: size, Here: true, targets: targets{since: now}}
}

// Ask notes the target of another node and reports whether it is new. A target with a number that is not above the
// known one changes nothing. When all places are taken neither does that of one more origin, unless that is a member
// and another origin is none, or it asks for more copies than another one.
func (o *Object) Ask(origin ID, t meta.Target, now time.Time) bool {
	return o.take(Asked{Origin: origin, Target: t, Since: now})
}

// AskOwn notes the target of this node as Ask does that of others. It always has a place.
func (o *Object) AskOwn(self ID, t meta.Target, now time.Time) bool {
	return o.take(Asked{Origin: self, Target: t, Since: now, own: true})
}

// Adopt notes the target that this node itself once asked for, as others know it, and reports whether it
// is new. It changes nothing once the node has called AskOwn. Else newer targets replace
// it, as those of others: it may have been removed meanwhile.
func (o *Object) Adopt(self ID, t meta.Target, now time.Time) bool {
	if i := o.of(self); i >= 0 && !o.asked[i].adopted {
		return false
	}
	return o.take(Asked{Origin: self, Target: t, Since: now, own: true, adopted: true})
}

// take notes a target, for which the object is planned anew, and reports whether it is new.
func (o *Object) take(a Asked) bool {
	changed := o.targets.take(a)
	if changed {
		o.leave, o.rest = leave{}, rest{}
	}
	return changed
}

// ResetTargets forgets what is asked for, so that pins say it anew.
func (o *Object) ResetTargets() { o.asked, o.rest = nil, rest{} }

// Answer returns how this node answers a challenge of its copy: Proved, with a proof, else Leaving
// or Absent. A copy that nobody asked for yet does not count, because its sender may be gone before it
// told the target. A copy that nobody asks for any more does not count either: it goes after Params.TrimWait.
func (o *Object) Answer() Answer {
	switch {
	case len(o.asked) == 0:
		return Absent
	case !o.leave.began.IsZero(), o.Wanted() == 0:
		return Leaving
	}
	return Proved
}

// Met reports whether the targets were met when Plan was last called.
func (o *Object) Met() bool { return o.Wanted() > 0 && o.short.IsZero() }

// AtRest reports whether the object has just the copies that it wants, each proved, and its latest plan has nothing to
// do at now. A [Page] takes such an object, unless more is known of it than fits: shards, many targets, or members that
// are late.
func (o *Object) AtRest(v *View, now time.Time) bool {
	return now.Before(o.Resting(v)) && o.short.IsZero() && o.Wanted() > 0 &&
		o.leave.began.IsZero() && !now.Before(o.lease.Until) && o.Own == Whole && o.data() == 0 &&
		len(o.asked) <= maxPackedTargets && len(o.seen) <= maxPackedSeen &&
		!slices.ContainsFunc(o.asked, func(a Asked) bool { return a.adopted || !a.Target.Wants() }) &&
		!slices.ContainsFunc(o.seen, func(s replica) bool { return s.unsettled(v) })
}

// Resting returns until when the object is at rest with a view, the zero time if it is not.
func (o *Object) Resting(v *View) time.Time {
	if o.rest.view != v.version {
		return time.Time{}
	}
	return o.rest.until
}

// ProveSince has the holders challenged in the next plan whose latest proof is older than since.
func (o *Object) ProveSince(since, now time.Time) {
	for i := range o.seen {
		if s := &o.seen[i]; s.proof == proved && s.at.Before(since) && !s.asking {
			s.due, o.rest = now, rest{}
		}
	}
}
