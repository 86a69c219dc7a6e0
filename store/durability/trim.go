package durability

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
}

// Lease is the permission of one holder to drop its copy. An object has one at a time.
type Lease struct {
	Holder ID
	Until  time.Time
}

// leaseTime is how long a lease holds: long enough for both proofs.
func leaseTime(p Params) time.Duration { return 3*p.TrimWait + p.Grace }

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

// Grant decides whether a holder may drop its copy, and then notes the lease. It may if enough
// others hold the object, if it is no node that asks for copies, and if no other holder has the lease.
func (o *Object) Grant(v *View, from ID, p Params, now time.Time) bool {
	if o.lease.Holder != from && now.Before(o.lease.Until) || o.asks(from) || o.Answer() != Proved {
		return false
	}
	want := o.Wanted()
	if want == 0 || o.held(v, p, now).without(from).covered(want) < want {
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
	o.leave.asked = now
	return append(actions, Action{Kind: AskLease, To: v.first(&o.Root, others.ids())[0]})
}

// leaves returns the holder whose copy is given up when there are too many: this node's if it does
// not count, as that of a draining member. Else it is the last one if holders were chosen
// in turn as a planner chooses them, so those that stay are spread as well as they can. Nodes with a
// target of their own stay, and so do those with the only copy of a shard. It returns "" if all do.
func (o *Object) leaves(v *View, holders copies, want int) ID {
	if len(holders.without(v.Self)) == len(holders) {
		return v.Self
	}
	for _, id := range slices.Backward(v.inOrder(o.Root, holders.ids())) {
		if !o.asks(id) && holders.without(id).covered(want) == want {
			return id
		}
	}
	return ""
}

// leaveOn goes on with dropping this node's copy: others prove theirs after the lease, and once
// more TrimWait later.
func (o *Object) leaveOn(v *View, p Params, now time.Time, want int, actions []Action) []Action {
	if now.Sub(o.leave.began) >= leaseTime(p)-p.Grace {
		o.leave = leave{asked: now} // the lease ends: stay
		return actions
	}
	since := o.leave.began
	if o.leave.again {
		since = o.leave.proved.Add(p.TrimWait)
	}
	n := o.provedBy(v, p, now, since).covered(want)
	switch {
	case o.leave.proved.IsZero():
		if n >= want {
			o.leave.proved = now
		}
	case !o.leave.again:
		if now.Sub(o.leave.proved) >= p.TrimWait {
			o.leave.again = true
			o.challengeAll(now)
		}
	case n >= want:
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
