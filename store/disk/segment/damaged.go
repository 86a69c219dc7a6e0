package segment

import (
	"maps"
	"slices"
	"sync"

	"allium/store/meta"
)

// ReportLoss reports that a part of segment num is damaged or missing. The compactor then
// copies what the index needs of the segment and marks the objects that cannot be read.
func (s *Log) ReportLoss(num uint64, d meta.Damage) {
	s.damage.Add(d)
	s.damaged.add(num)
}

// numberSet is a set of segment numbers. It is safe for concurrent use.
type numberSet struct {
	mu  sync.Mutex // lock: leaf
	set map[uint64]struct{}
}

func (n *numberSet) add(num uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[uint64]struct{}{}
	}
	n.set[num] = struct{}{}
}

// drain empties n and returns what it held, ascending.
func (n *numberSet) drain() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	nums := slices.Sorted(maps.Keys(n.set))
	clear(n.set)
	return nums
}
