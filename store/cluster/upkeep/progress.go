package upkeep

import (
	"time"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// Progress says how far objects are whose copies somebody waits for.
type Progress struct {
	Unmet  []b3.Root // those that have not the copies that are asked for, or are not planned yet
	Copies int       // that count, of all of them
	Coming int       // that are on their way, and objects that are being coded
	Given  int       // objects for which the pins of this node ask for less by now

	Blocked      // of at most maxReach objects that were looked at
	Coded   bool // First is to have shards

	Pending   bool // pins that were just set are not planned yet: nothing else is known but Unmet, which is all objects
	LastOnly  bool // more than a third of the members vanished together: only last copies are sent
	Unplanned int  // objects for which there is no room

	Failures
	looked int
}

// Blocked counts the objects that cannot have the copies that are asked for: too few members hold or take one.
type Blocked struct {
	Stuck  int
	First  b3.Root     // one of them
	Takers plan.Takers // the members that could hold it
}

// Failures are the latest errors of copies and shards.
type Failures struct {
	// SendErr is the error of the latest send of an object that is sent to nobody now, and Failing is since when its
	// sends fail. It is the object whose sends fail for the longest time.
	SendErr error
	Failing time.Time
	CodeErr error // of the latest attempt to code an object that is not being coded now
}

// maxReach is the number of objects for which Progress counts the members that could hold them.
const maxReach = 64

// Progress says how far objects are on the way to what t asks for, whatever other pins ask for them. The zero t stands
// for what all pins together ask for.
func (rs *reports) Progress(roots []b3.Root, t meta.Target) (w Progress) {
	v := rs.deps.View()
	w.LastOnly = v.LastOnly
	// These come before the objects, which are planned before a pin or a coding leaves them.
	w.Pending = len(rs.finder.pinned.list()) > 0 // a target may be new
	coded := rs.finder.encodings.of(t)
	rs.inv.mu.Lock()
	defer rs.inv.mu.Unlock()
	w.Unplanned = rs.inv.leftOut()
	if w.Pending {
		w.Unmet = roots
		return w
	}
	w.Unmet = make([]b3.Root, 0, len(roots))
	for _, root := range roots {
		planned, met := 0, true
		if a, ok := coded[root]; ok {
			met = false
			if a.running {
				w.Coming++
			} else if a.err != nil {
				w.CodeErr = a.err
			}
		}
		for _, e := range rs.inv.entriesOf(root) {
			if n := e.awaited(t); n > 0 {
				planned++
				met = rs.await(&w, e, v, n, t) && met
			}
		}
		if !met || planned == 0 {
			w.Unmet = append(w.Unmet, root)
		}
	}
	return w
}

// await adds an object that is to have so many copies or shards, and reports whether it has them. The caller
// holds inv.mu.
func (rs *reports) await(w *Progress, e *entry, v *plan.View, wanted int, t meta.Target) (met bool) {
	now := rs.deps.Now()
	n := e.At(v, rs.p, now).Observed()
	w.Copies += min(n, wanted)
	if n >= wanted {
		return true
	}
	sending := e.Sending()
	w.Coming += sending
	if f := e.failing; sending == 0 && f.err != nil && (w.SendErr == nil || f.since.Before(w.Failing)) {
		w.SendErr, w.Failing = f.err, f.since
	}
	if t.Wants() && e.OwnTarget(rs.deps.Self).Places() < t.Places() && (t.Data == 0 || e.coded != nil) {
		w.Given++
	}
	if w.looked++; w.looked > maxReach {
		return false
	}
	if takers := e.At(v, rs.p, now).Takers(e.Here); takers.Members < wanted {
		if w.Stuck == 0 {
			takers.Wanted, w.First, w.Takers = wanted, e.Root, takers
			if e.coded != nil {
				w.First, w.Coded = e.coded.Object, true
			}
		}
		w.Stuck++
	}
	return false
}
