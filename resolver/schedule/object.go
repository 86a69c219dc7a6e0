package schedule

import "allium/protocols/b3"

// Stored tells which groups of the object are stored.
type Stored interface {
	// Missing returns the first run of groups in [from, to) that are not stored.
	// It returns lo == hi when all are.
	Missing(from, to int64) (lo, hi int64)
	// Held returns how many bytes are stored.
	Held() int64
}

// object is the size of the object and which groups of it are stored and requested.
//
// Invariant: requests contains the requests that have not ended, in the order of
// their Ask. inflight of a provider counts its own.
type object struct {
	*orders
	size    int64  // bytes; valid when stored is set
	stored  Stored // nil until the size is known
	resumed int64  // bytes that were stored when the size became known
	low     int64  // no group before it is missing

	requests     requests
	last         RequestID
	hedgedGroups int64 // groups that were asked for twice
	freed        int   // counts, from 1, when groups may be asked for that were not needed before
}

func (o *object) groups() int64 { return b3.Groups(o.size) }

// Complete reports whether all groups are stored.
func (o *object) Complete() bool {
	if o.stored == nil {
		return false
	}
	n := o.groups()
	o.low = o.firstMissing(o.low, n)
	if o.low < n {
		return false
	}
	o.low = o.firstMissing(0, n) // a group may have been lost since
	return o.low == n
}

// firstMissing returns the first group in [from, to) that is not stored, or to.
func (o *object) firstMissing(from, to int64) int64 {
	for from < to {
		end := min(to, from+groupsAtOnce)
		if lo, hi := o.stored.Missing(from, end); lo < hi {
			return lo
		}
		from = end
	}
	return to
}

// needs returns the groups of w's window from the first missing one on.
func (o *object) needs(w *waiter) Run {
	r := Run{o.firstMissing(w.from(), w.limit()), w.limit()}
	w.low = max(w.low, r.Lo)
	return r
}

// search returns the first run that is neither stored nor requested and that offer has: offer returns the first part
// of a run that it has, and a nil offer has all. It looks in one range after the other. The run is empty when there is
// none.
func (o *object) search(offer func(Run) Run, ranges ...Run) Run {
	taken := o.requests.runs()
	for _, in := range ranges {
		for in.Lo < in.Hi {
			lo, hi := o.stored.Missing(in.Lo, min(in.Hi, in.Lo+groupsAtOnce))
			if lo == hi {
				in.Lo += groupsAtOnce
				continue
			}
			r := Run{lo, hi}.without(taken)
			in.Lo = max(r.Lo, r.Hi)
			if offer != nil && !r.empty() {
				r = offer(r)
			}
			if !r.empty() {
				return r
			}
		}
	}
	return Run{}
}
