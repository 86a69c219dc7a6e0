package upkeep

import (
	"time"

	"allium/protocols/erasure"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// entry is an object that has a target. Here is as of the latest look.
type entry struct {
	*plan.Object
	pass    uint64      // the latest pass that saw it
	told    uint64      // the pass in which a member told of it last
	own     meta.Target // what the pins of this node ask for, as far as the pass has seen
	adopted meta.Target // what this node once asked for, as others say
	placed  bool        // its targets were met once since the node started
	failing failing     // its sends
	// dropping says that its pins are being removed. Nothing that a member tells is taken over meanwhile.
	dropping bool
	// unkept is not 0 while targets that members told may not be durable here: the number of the latest such call.
	unkept uint64

	coded    *erasure.Manifest // of a coding manifest; nil: whole copies are kept
	released uint64            // number of the removed target of the coded object, as far as the pass has seen
}

// asked returns when this node set its target.
func (e *entry) asked(self plan.ID) time.Time {
	return time.UnixMilli(int64(e.OwnTarget(self).Seq))
}

// isAwaited reports whether the sends of e are no repairs, but what somebody waits for who set a target on
// this node: they do not keep to the rate of repairs.
func (e *entry) isAwaited(self plan.ID, begun uint64) bool {
	return !e.placed && e.OwnTarget(self).Seq >= begun
}

// failing says how the latest send of an object failed, and since when all do. The zero failing: it did not.
type failing struct {
	err   error
	since time.Time
}

// note notes the end of a send.
func (f *failing) note(err error, now time.Time) {
	switch {
	case err == nil:
		*f = failing{}
	case f.err == nil:
		*f = failing{err, now}
	default:
		f.err = err
	}
}

// latest returns the number of the newest target that asks for anything.
func (e *entry) latest() (seq uint64) {
	for _, a := range e.Asked() {
		if a.Target.Wants() {
			seq = max(seq, a.Target.Seq)
		}
	}
	return seq
}

// takes reports whether a target can be one of the entry: shards are of the numbers that the manifest has, and a
// manifest is not kept as copies.
func (e *entry) takes(t meta.Target) bool {
	if !t.Wants() {
		return true
	}
	if e.coded == nil {
		return t.Data == 0
	}
	return t.Data == e.coded.Data && t.Parity == e.coded.Parity
}

// wants notes that a pin of this node asks for copies or shards.
func (e *entry) wants(t meta.Target) {
	if e.coded != nil {
		if t.Data > 0 {
			e.own.Copies, e.own.Data, e.own.Parity = 0, t.Data, t.Parity
		}
		return
	}
	e.own.Copies = max(e.own.Copies, t.Copies)
}

// awaited returns how many copies or shards of e a target asks for, 0 if it asks for none of e. The zero target stands
// for all that pins ask for.
func (e *entry) awaited(t meta.Target) int {
	switch {
	case !t.Wants():
		return e.Wanted()
	case e.coded != nil && t.Data > 0 && e.takes(t):
		return t.Places() - e.coded.Empty()
	case e.coded != nil:
		return 0
	case t.Data > 0 && e.Object.Size < erasure.MinSize:
		return t.Parity + 1
	}
	return t.Copies
}

// restSum returns the Sum of n objects that are at rest as e is.
func (e *entry) restSum(n int) Sum {
	return Sum{Objects: n, Wanted: n * e.Wanted(), Observed: n * e.Wanted()}
}

// ask tells the planner the target of this node's pins, with a number above that of the latest target. A node without
// pins adopts the target that it once set.
func (e *entry) ask(self plan.ID, now time.Time) {
	t := e.own
	if t.Seq == 0 {
		e.Adopt(self, e.adopted, now)
		return
	}
	for _, a := range e.Asked() {
		if a.Origin == self && !a.Target.SameCopies(t) {
			t.Seq = max(t.Seq, a.Target.Seq+1)
		}
	}
	e.AskOwn(self, t, now)
}
