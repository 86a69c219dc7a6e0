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

// object is the size of the object and which groups of it are stored.
type object struct {
	size    int64  // bytes; valid when stored is set
	stored  Stored // nil until the size is known
	resumed int64  // bytes that were stored when the size became known
	low     int64  // no group before it is missing
}

func (o *object) groups() int64 { return b3.Groups(o.size) }

// complete reports whether all groups are stored.
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
