package plan

import (
	"encoding/binary"
	"time"
)

// Answer is the answer of a member to a challenge.
type Answer uint8

// Answers to a challenge.
const (
	Busy    Answer = iota // late, refused for load, or not reached: says nothing
	Proved                // it proved the copy
	Leaving               // it is about to drop the copy
	Absent                // it says that it has none, or its proof is wrong
)

// Response is the answer of a member for one object of a challenge.
type Response struct {
	Answer Answer
	Piece  Piece // that it proved
}

// Answered notes how a member answered the challenge of a Challenge action, or that a read of
// its copy failed, which is Absent. piece is what it proved. It reports whether the member began or ceased to be a
// holder, or holds another piece.
func (o *Object) Answered(id ID, a Answer, piece Piece, p Params, now time.Time) (changed bool) {
	s := o.at(id)
	if s == nil {
		return false
	}
	was := *s
	o.rest = rest{}
	asked := now // of a read, which is no challenge
	if s.asking {
		asked = s.asked
	}
	s.asking, s.claimed, s.late, s.due = false, false, 0, now.Add(o.auditIn(id, p, now))
	switch a {
	case Proved:
		s.proof, s.piece, s.at, s.fails, s.took = proved, piece, asked, 0, false
	case Leaving:
		s.proof = leaving
	case Absent:
		if s.took {
			s.failed(p.AuditPeriod, now)
		}
		if s.proof != absent {
			s.told = 0
		}
		s.proof, s.told = absent, min(s.told, toldBefore)
		old := asked.Before(o.lacks) // never while the object can be read
		if s.none = !o.lacks.IsZero() && !old; old {
			s.due = now
		}
	case Busy:
		wait := p.Tick
		if o.Awaited {
			wait /= awaitedPart
		}
		s.due = now.Add(min(wait<<was.late, p.AuditPeriod/4))
		s.late = min(was.late+1, maxDoubled)
	}
	return (was.proof == proved) != (s.proof == proved) || was.piece != s.piece
}

// Unasked notes that a member was not asked after all, as it did not answer for other objects just then. It is
// asked again in the next plan.
func (o *Object) Unasked(id ID, now time.Time) {
	if s := o.at(id); s != nil {
		s.asking, s.due, o.rest = false, now, rest{}
		if o.Awaited {
			s.late = max(s.late, 1) // pass it over
		}
	}
}

// auditIn returns the time until the next challenge: between a half and nearly the whole of the
// audit period, so that challenges of many objects spread.
func (o *Object) auditIn(id ID, p Params, now time.Time) time.Duration {
	h := id.mix(binary.LittleEndian.Uint64(o.Root[:]) ^ uint64(now.UnixNano()))
	spread := max(p.AuditPeriod/2-2*p.Tick, 1)
	return p.AuditPeriod/2 + time.Duration(h%uint64(spread))
}

// Sent notes the end of a Send action. A member that took the copy is challenged next.
func (o *Object) Sent(id ID, ok bool, p Params, now time.Time) {
	s := o.at(id)
	if s == nil {
		return
	}
	s.sending, o.rest = false, rest{}
	if !ok {
		s.failed(2*p.Tick, now)
		return
	}
	s.took, s.proof, s.first, s.due = true, unknown, time.Time{}, now
}

// SentProved notes the end of a Send action: the member took the copy, and proved it in answer to a challenge of
// that time. It reports whether the member began to be a holder.
func (o *Object) SentProved(id ID, challenged time.Time, p Params, now time.Time) (changed bool) {
	o.Sent(id, true, p, now)
	s := o.at(id)
	if s == nil || s.asking {
		return false
	}
	s.asking, s.asked = true, challenged
	return o.Answered(id, Proved, Whole, p, now)
}

// Skipped notes that a Send action was not begun, as its queue was full. It is planned again.
func (o *Object) Skipped(id ID) {
	if s := o.at(id); s != nil {
		s.sending, o.rest = false, rest{}
	}
}

// TellEnded notes the end of a Tell action.
func (o *Object) TellEnded(id ID, version uint64, ok bool) {
	if s := o.at(id); s != nil {
		s.telling, o.rest = false, rest{}
		if ok {
			s.told = version
		}
	}
}

// Leased notes that the planner granted this node the lease.
func (o *Object) Leased(now time.Time) {
	if o.leave.began.IsZero() {
		o.leave, o.rest = leave{asked: o.leave.asked, began: now}, rest{}
		o.challengeAll(now)
	}
}

// Restore notes a proof from before a restart, unless the holder is known already. It counts as if the node had run on:
// the holder is challenged when that is due, and one that is too old says nothing, as does one from the future.
func (o *Object) Restore(proof Proof, p Params, now time.Time) {
	age := now.Sub(proof.At)
	if age < 0 || age > 2*p.AuditPeriod || o.replica(proof.Holder) != nil {
		return
	}
	s := o.at(proof.Holder)
	if s == nil {
		return
	}
	s.proof, s.piece, s.at, s.first = proved, proof.Piece, proof.At, proof.At
	s.due = proof.At.Add(o.auditIn(proof.Holder, p, proof.At))
	o.rest = rest{}
}
