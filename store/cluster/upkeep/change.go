package upkeep

import (
	"slices"
	"sync"

	"allium/store/cluster/plan"
)

// Change is the difference between the results of a whole tick and of the one before.
type Change struct {
	Before, Now Sum
	Gone        []plan.ID // members that were present, in the order of their IDs
	Back        []plan.ID // members that were gone, or not known
}

// Behind reports whether more objects have lost copies that they had since the node started.
func (c *Change) Behind() bool { return c.Now.Behind > c.Before.Behind }

// Restored reports whether all such objects have their copies again.
func (c *Change) Restored() bool { return c.Before.Behind > 0 && c.Now.Behind == 0 }

// Lost reports whether more objects are lost.
func (c *Change) Lost() bool { return c.Now.Lost > c.Before.Lost }

// latest is the result of the latest whole tick. It is safe for concurrent use.
type latest struct {
	mu      sync.Mutex // lock: leaf
	sum     Sum
	present map[plan.ID]bool // members; nil: no tick followed a pass over the pins
}

// get returns the counts.
func (l *latest) get() Sum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum
}

// set notes the result of a whole tick with the view v, and returns what differs from the one before. Before the first
// pass over the pins has ended, and in the first tick after that, nothing does.
func (l *latest) set(sum Sum, v *plan.View, seen bool) Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.sum
	l.sum = sum
	if !seen {
		return Change{}
	}
	present := map[plan.ID]bool{}
	for _, m := range v.Members() {
		if !m.Gone {
			present[m.ID] = true
		}
	}
	was := l.present
	l.present = present
	if was == nil {
		return Change{}
	}
	return Change{Before: before, Now: sum, Gone: without(was, present), Back: without(present, was)}
}

// without returns the members of a that are not in b, in order.
func without(a, b map[plan.ID]bool) (list []plan.ID) {
	for id := range a {
		if !b[id] {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}
