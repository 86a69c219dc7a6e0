package schedule

import "allium/protocols/b3"

// Stored is what is here of the object when an event comes.
type Stored interface {
	// Missing returns the first run of groups in [from, to) that are not here;
	// lo == hi when all are.
	Missing(from, to int64) (lo, hi int64)
	// Held is how many bytes are here.
	Held() int64
}

// object is the size of the object and the parts of it that are here.
type object struct {
	size    int64  // bytes; of use when stored is set
	stored  Stored // nil: the size is not known
	resumed int64  // bytes that were here when the size became known
	low     int64  // no group before it is missing
}

func (o *object) groups() int64 { return b3.Groups(o.size) }

// complete reports whether all groups are here.
func (o *object) complete() bool {
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

// firstMissing returns the first group in [from, to) that is not here, or to.
func (o *object) firstMissing(from, to int64) int64 {
	for from < to {
		end := min(to, from+lookedAt)
		if lo, hi := o.stored.Missing(from, end); lo < hi {
			return lo
		}
		from = end
	}
	return to
}
