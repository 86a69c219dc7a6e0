package segment

import (
	"maps"
	"slices"
	"sync"

	"allium/store/meta"
)

// listUsage returns the segments of the log and of the directory with the sizes of their
// files, 0 for a missing one.
func (s *Log) listUsage() (map[uint64]segmentUsage, error) {
	nums, err := s.List()
	if err != nil {
		return nil, err
	}
	set, _, err := s.index.Segments()
	if err != nil {
		return nil, err
	}
	segs := map[uint64]segmentUsage{}
	for num, end := range set {
		segs[num] = segmentUsage{end: end}
	}
	for _, num := range nums {
		info, err := s.fs.Stat(s.path(num))
		if err != nil {
			return nil, meta.ReadError(err)
		}
		segs[num] = segmentUsage{size: info.Size(), end: set[num]}
	}
	return segs, nil
}

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
