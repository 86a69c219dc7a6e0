package plan

import (
	"slices"
	"time"
)

// trimming is the state of dropping the copies beyond those that are asked for.
type trimming struct {
	ample time.Time // since when there are too many; zero: there are not
	leave leave
	lease Lease
}

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

// GrantLease decides whether a holder may drop its copy, and then notes the lease. It may if the copies of others take
// as many places without it, if it is no node that asks for copies, and if no other holder has the lease. The holder
// that had it last does not get it again while another one asks, which it does once a grace.
func (m Moment) GrantLease(from ID) bool {
	if m.asks(from) || m.Answer() != Proved {
		return false
	}
	want, held := m.Wanted(), m.held()
	others := held.without(from)
	if n := others.covered(want); want == 0 || n < held.covered(want) || n < want && len(others) == len(held) {
		return false
	}
	d := leaseTime(m.p)
	switch l := &m.lease; {
	case l.Holder != from && within(m.now, l.Until.Add(-d), d):
		l.refused = m.now
		return false
	case l.Holder == from && within(m.now, l.refused, 2*m.p.Grace):
		// It asks as it has lost the lease, by a restart or as the answer was lost: the one that waits gets it next.
		m.lease = Lease{Holder: from, refused: l.refused}
		return false
	}
	m.lease = Lease{Holder: from, Until: m.now.Add(d)}
	return true
}

// trim plans how this node drops its copy when there are enough others.
func (pl *planning) trim() {
	others := pl.holders.without(pl.v.Self)
	switch {
	case pl.asks(pl.v.Self):
		pl.leave = leave{}
	case !pl.leave.began.IsZero():
		pl.leaveOn(pl.want)
	case others.covered(pl.want) < pl.want, pl.v.LastOnly:
	case !pl.leave.asked.IsZero() && pl.now.Sub(pl.leave.asked) < pl.p.Grace:
	// A member that comes and goes makes too many again and again: that moves nothing.
	case len(others) < len(pl.holders) && (pl.ample.IsZero() || pl.now.Sub(pl.ample) < 2*pl.p.Grace):
	case pl.leaves(pl.holders) == pl.v.Self:
		pl.askLease(others)
	}
}

// askLease adds that this node asks for the lease of its copy. The planner is the first one of the others.
func (pl *planning) askLease(others copies) {
	pl.leave.asked = pl.now
	pl.add(AskLease, pl.v.first(&pl.Root, others.ids())[0])
}

// trimDouble plans how this node drops its copy while shards are missing: another member has the same shard, and
// every member that could take a missing one holds a shard. After the drop this node takes it. The drop needs the same
// two rounds of proofs as any other, and as many different shards at others as make the object.
func (pl *planning) trimDouble() {
	others := pl.holders.without(pl.v.Self)
	covered := others.covered(pl.want)
	needed := covered < append(others, holding{pl.v.Self, pl.Own}).covered(pl.want)
	switch {
	case needed, pl.asks(pl.v.Self), covered < pl.leave.places:
		pl.leave = leave{}
	case !pl.leave.began.IsZero():
		pl.leave.places = covered
		pl.leaveOn(covered)
	case len(pl.actions) > 0, covered < pl.data(), pl.Sending() > 0:
	case pl.v.LastOnly && covered > pl.least(): // the shard that this node could take is not repaired now
	case pl.now.Sub(pl.short) < 2*pl.p.Grace, pl.now.Sub(pl.leave.asked) < pl.p.Grace:
	case len(others) == len(pl.holders), pl.leaves(pl.holders) != pl.v.Self:
	case len(pl.v.Place(pl.Root, pl.Size, pl.holders.ids(), nil, 1)) > 0: // it takes the shard
	default:
		pl.askLease(others)
	}
}

// leaves returns the holder whose copy is given up when there are too many: this node's if it does
// not count, as that of a draining member. Else it is the last one if holders were chosen
// in turn as a planner chooses them, so those that stay are spread as well as they can. Nodes with a
// target of their own stay, and so do those with the only copy of a shard. It returns "" if all do.
func (pl *planning) leaves(holders copies) ID {
	if len(holders.without(pl.v.Self)) == len(holders) {
		return pl.v.Self
	}
	for _, id := range slices.Backward(pl.v.inOrder(pl.Root, holders.ids())) {
		if !pl.asks(id) && holders.without(id).covered(pl.want) == holders.covered(pl.want) {
			return id
		}
	}
	return ""
}

// leaveOn goes on with dropping this node's copy: others prove after the lease, and once more TrimWait later, that
// theirs take so many places.
func (pl *planning) leaveOn(places int) {
	l := &pl.leave
	if pl.now.Sub(l.began) >= leaseTime(pl.p)-pl.p.Grace {
		*l = leave{asked: pl.now} // the lease ends: stay
		return
	}
	since := l.began
	if l.again {
		since = l.proved.Add(pl.p.TrimWait)
	}
	enough := pl.provedBy(since).covered(places) >= places
	switch {
	case enough && l.again:
		pl.add(Drop, "")
	case enough && l.proved.IsZero():
		l.proved = pl.now
	case !l.again && !l.proved.IsZero() && pl.now.Sub(l.proved) >= pl.p.TrimWait:
		l.again = true
		pl.challengeAll(pl.now)
	}
}
