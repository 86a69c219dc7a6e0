package plan

import (
	"slices"
	"time"
)

// proof is the state of a member's copy, as this node knows it.
type proof uint8

const (
	unknown proof = iota // it was not asked yet, or has not answered
	proved               // it proved its copy, at replica.at
	leaving              // it has one that it is about to drop
	absent               // it has none, or could not prove it
)

// toldBefore is the version of a member that was told the targets and is to be told again, as it holds no copy yet.
const toldBefore = 1

// flight says which actions for a member have not ended: Challenge, Send, Tell.
type flight struct{ asking, sending, telling bool }

func (f flight) inFlight() bool { return f.asking || f.sending || f.telling }

// attempts are the sends to a member.
type attempts struct {
	sent  Piece     // that is on its way while sending
	took  bool      // the member said that it took a copy, and has not proved it since
	fails int       // sends in a row that failed, or after which it did not prove the copy
	retry time.Time // before it, no send
}

// failed notes a send in vain. The first one is followed by a wait, each further one in a row by a wait twice as long.
func (a *attempts) failed(wait time.Duration, now time.Time) {
	a.took = false
	a.retry = now.Add(wait << min(a.fails, maxDoubled))
	a.fails++
}

// absence says more of a member whose latest answer was that it has no copy.
type absence struct {
	claimed bool // it seems to hold one now, and has not answered since
	none    bool // it said so to a challenge since search.lacks
}

// replica is a member that may hold a copy.
type replica struct {
	flight
	proof proof
	piece Piece // that it proved last
	absence
	attempts
	id    ID
	at    time.Time // of the challenge that it proved last
	first time.Time // when it was first asked; zero: never
	due   time.Time // of the next challenge
	asked time.Time // of the latest challenge
	told  uint64    // version of the targets that it was told, or toldBefore; zero: none
	late  int       // challenges in a row without an answer, at most maxDoubled
}

// counted reports whether the copy counts: its holder is a member that counts, and its latest
// proof is not older than two audit periods, unless this node did not get to ask for another one.
func (s *replica) counted(m Moment) bool {
	h := m.v.find(s.id)
	return h != nil && h.counts() && s.proof == proved && (s.late == 0 || m.now.Sub(s.at) <= 2*m.p.AuditPeriod)
}

// open reports whether the member may hold a copy that counts, and has not answered yet. It has a grace for that.
func (s *replica) open(m Moment) bool {
	h := m.v.find(s.id)
	if s.proof != unknown || h == nil || !h.counts() {
		return false
	}
	return s.first.IsZero() || m.now.Sub(later(s.first, h.Since)) < m.p.Grace
}

// unsettled reports whether more is known than that the member proved its copy, or has none. Of a member that is
// gone it does not matter.
func (s *replica) unsettled(v *View) bool {
	return s.inFlight() ||
		v.present(s.id) && (s.took || s.late > 0 || s.proof == leaving || s.proof == unknown)
}

// replicas are the members that may hold copies of one object.
type replicas struct {
	seen []replica // at most MaxSeen
}

// replica returns the state of a member's copy, nil if the object does not know the member.
func (r *replicas) replica(id ID) *replica {
	i := slices.IndexFunc(r.seen, func(s replica) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return &r.seen[i]
}

// at returns what is known of a member's copy, after it added the member where that is new. It
// returns nil if there are MaxSeen members that are of use.
func (r *replicas) at(id ID) *replica {
	if s := r.replica(id); s != nil {
		return s
	}
	if len(r.seen) < MaxSeen {
		r.seen = append(r.seen, replica{id: id})
		return &r.seen[len(r.seen)-1]
	}
	i := slices.IndexFunc(r.seen, func(s replica) bool { return s.proof == absent && !s.inFlight() })
	if i < 0 {
		return nil
	}
	r.seen[i] = replica{id: id}
	return &r.seen[i]
}

// HeldBy reports whether a member is known to have proved a copy.
func (r *replicas) HeldBy(id ID) bool { return r.provedSince(id, time.Time{}) }

// provedSince reports whether a member proved its copy by a challenge that is not older than since.
func (r *replicas) provedSince(id ID, since time.Time) bool {
	s := r.replica(id)
	return s != nil && s.proof == proved && !s.at.Before(since)
}

// ProvedSince reports whether all copies of other members were proved by challenges that are not older than since.
func (r *replicas) ProvedSince(since time.Time) bool {
	return !slices.ContainsFunc(r.seen, func(s replica) bool { return s.proof == proved && s.at.Before(since) })
}

// Sending returns how many copies are on their way.
func (r *replicas) Sending() (n int) {
	for i := range r.seen {
		if r.seen[i].sending {
			n++
		}
	}
	return n
}

// challengeAll has all challenged next that proved their copies.
func (r *replicas) challengeAll(now time.Time) {
	for i := range r.seen {
		if s := &r.seen[i]; s.proof == proved {
			s.due = now
		}
	}
}

// askAgain has those challenged again, at a time, that were about to drop their copy: they stay as copies are missing
// now. Until then no copy is sent in their place.
func (r *replicas) askAgain(due time.Time) {
	for i := range r.seen {
		if s := &r.seen[i]; s.proof == leaving {
			s.proof, s.due, s.first = unknown, due, time.Time{}
		}
	}
}

// doubt has those challenged again now that said that they have no copy. Each may have got one since.
func (r *replicas) doubt(now time.Time) {
	for i := range r.seen {
		if s := &r.seen[i]; s.proof == absent {
			s.none, s.due = false, now
		}
	}
}

// nextChallenge returns when the next challenge is due, at most limit. Members that are gone are not challenged: when
// they come back, the view is another one.
func (r *replicas) nextChallenge(v *View, limit time.Time) time.Time {
	for i := range r.seen {
		if s := &r.seen[i]; !s.asking && s.due.Before(limit) && v.present(s.id) {
			limit = s.due
		}
	}
	return limit
}
