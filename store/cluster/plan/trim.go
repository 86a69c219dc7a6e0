package plan

import (
	"slices"
	"time"
)

// leave is the state of a holder that is about to drop its copy.
type leave struct {
	asked  time.Time // when the lease was asked for last
	began  time.Time // when the lease was granted; from then on the node claims to hold no copy
	proved time.Time // when enough others had proved their copies for the first time; zero: not yet
	again  bool      // the second proofs were asked for
	places int       // that the copies of others took in the latest plan of trimDouble
}

// Lease is the permission of one holder to drop its copy. An object has one at a time.
type Lease struct {
	Holder ID
	Until  time.Time

	refused time.Time // when another holder was refused last because of it
}

// leaseTime returns the duration of a lease: long enough for both proofs.
func leaseTime(p Params) time.Duration { return 3*p.TrimWait + p.Grace }

// within reports whether now is less than a time after from, and not before it, as after the clock was set back.
func within(now, from time.Time, d time.Duration) bool { return !now.Before(from) && now.Sub(from) < d }

// Leased notes that the planner granted this node the lease.
func (o *Object) Leased(now time.Time) {
	if o.leave.began.IsZero() {
		o.leave, o.rest = leave{asked: o.leave.asked, began: now}, rest{}
		o.challengeAll(now)
	}
}

func (o *Object) challengeAll(now time.Time) {
	for i := range o.seen {
		if s := &o.seen[i]; s.proof == proved {
			s.due = now
		}
	}
}

// GrantLease decides whether a holder may drop its copy, and then notes the lease. It may if the copies of others take
// as many places without it, if it is no node that asks for copies, and if no other holder has the lease. The holder
// that had it last does not get it again while another one asks, which it does once a grace.
func (o *Object) GrantLease(v *View, from ID, p Params, now time.Time) bool {
	if o.asks(from) || o.Answer() != Proved {
		return false
	}
	want, held := o.Wanted(), o.held(v, p, now)
	others := held.without(from)
	if n := others.covered(want); want == 0 || n < held.covered(want) || n < want && len(others) == len(held) {
		return false
	}
	switch l := &o.lease; {
	case l.Holder != from && within(now, l.Until.Add(-leaseTime(p)), leaseTime(p)):
		l.refused = now
		return false
	case l.Holder == from && within(now, l.refused, 2*p.Grace):
		// It asks as it has lost the lease, by a restart or as the answer was lost: the one that waits gets it next.
		o.lease = Lease{Holder: from, refused: l.refused}
		return false
	}
	o.lease = Lease{Holder: from, Until: now.Add(leaseTime(p))}
	return true
}

// trim plans how this node drops its copy when there are enough others. holders are the copies
// that count, actions what is planned already.
func (o *Object) trim(v *View, p Params, now time.Time, holders copies, want int, actions []Action) []Action {
	if o.asks(v.Self) {
		o.leave = leave{}
		return actions
	}
	if !o.leave.began.IsZero() {
		return o.leaveOn(v, p, now, want, actions)
	}
	others := holders.without(v.Self)
	if others.covered(want) < want || v.LastOnly || !o.leave.asked.IsZero() && now.Sub(o.leave.asked) < p.Grace {
		return actions
	}
	// A member that comes and goes makes too many again and again: that moves nothing.
	lasts := len(others) == len(holders) || !o.ample.IsZero() && now.Sub(o.ample) >= 2*p.Grace
	if !lasts || o.leaves(v, holders, want) != v.Self {
		return actions
	}
	return o.askLease(v, now, others, actions)
}

// askLease adds that this node asks for the lease of its copy. The planner is the first one of the others.
func (o *Object) askLease(v *View, now time.Time, others copies, actions []Action) []Action {
	o.leave.asked = now
	return append(actions, Action{Kind: AskLease, To: v.first(&o.Root, others.ids())[0]})
}

// trimDouble plans how this node drops its copy while shards are missing: another member has the same shard, and
// every member that could take a missing one holds a shard. After the drop this node takes it. The drop needs the same
// two rounds of proofs as any other, and as many different shards at others as make the object.
func (o *Object) trimDouble(v *View, p Params, now time.Time, holders copies, actions []Action) []Action {
	want, others := o.Wanted(), holders.without(v.Self)
	covered := others.covered(want)
	needed := covered < append(others, holding{v.Self, o.Own}).covered(want)
	if needed || o.asks(v.Self) || covered < o.leave.places {
		o.leave = leave{}
		return actions
	}
	if !o.leave.began.IsZero() {
		o.leave.places = covered
		return o.leaveOn(v, p, now, covered, actions)
	}
	switch {
	case len(actions) > 0, covered < o.data(), slices.ContainsFunc(o.seen, isSending):
	case v.LastOnly && covered > o.least(): // the shard that this node could take is not repaired now
	case now.Sub(o.short) < 2*p.Grace, now.Sub(o.leave.asked) < p.Grace:
	case len(others) == len(holders), o.leaves(v, holders, want) != v.Self:
	case len(v.Place(o.Root, o.Size, holders.ids(), nil, 1)) > 0: // it takes the shard
	default:
		return o.askLease(v, now, others, actions)
	}
	return actions
}

func isSending(s seen) bool { return s.sending }

// leaves returns the holder whose copy is given up when there are too many: this node's if it does
// not count, as that of a draining member. Else it is the last one if holders were chosen
// in turn as a planner chooses them, so those that stay are spread as well as they can. Nodes with a
// target of their own stay, and so do those with the only copy of a shard. It returns "" if all do.
func (o *Object) leaves(v *View, holders copies, want int) ID {
	if len(holders.without(v.Self)) == len(holders) {
		return v.Self
	}
	for _, id := range slices.Backward(v.inOrder(o.Root, holders.ids())) {
		if !o.asks(id) && holders.without(id).covered(want) == holders.covered(want) {
			return id
		}
	}
	return ""
}

// leaveOn goes on with dropping this node's copy: others prove after the lease, and once more TrimWait later, that
// theirs take so many places.
func (o *Object) leaveOn(v *View, p Params, now time.Time, places int, actions []Action) []Action {
	if now.Sub(o.leave.began) >= leaseTime(p)-p.Grace {
		o.leave = leave{asked: now} // the lease ends: stay
		return actions
	}
	since := o.leave.began
	if o.leave.again {
		since = o.leave.proved.Add(p.TrimWait)
	}
	n := o.provedBy(v, p, now, since).covered(places)
	switch {
	case o.leave.proved.IsZero():
		if n >= places {
			o.leave.proved = now
		}
	case !o.leave.again:
		if now.Sub(o.leave.proved) >= p.TrimWait {
			o.leave.again = true
			o.challengeAll(now)
		}
	case n >= places:
		return append(actions, Action{Kind: Drop})
	}
	return actions
}

// provedSince reports whether a member proved its copy by a challenge that is not older than since.
func (o *Object) provedSince(id ID, since time.Time) bool {
	return slices.ContainsFunc(o.seen, func(s seen) bool {
		return s.id == id && s.proof == proved && !s.at.Before(since)
	})
}
