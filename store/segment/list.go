package segment

import (
	"maps"
	"slices"
	"sync"

	"allium/store/meta"
)

// sizes returns the segments of the log with the sizes of their files, those that
// are missing among them.
func (s *Log) sizes() (map[uint64]figures, error) {
	nums, err := s.List()
	if err != nil {
		return nil, err
	}
	set, _, err := s.index.Segments()
	if err != nil {
		return nil, err
	}
	segs := map[uint64]figures{}
	for num, end := range set {
		segs[num] = figures{end: end}
	}
	for _, num := range nums {
		info, err := s.fs.Stat(s.path(num))
		if err != nil {
			return nil, meta.ReadError(err)
		}
		segs[num] = figures{size: info.Size(), end: set[num]}
	}
	return segs, nil
}

// Lost notes that something of a segment is gone, and has the compactor copy what
// the index needs of it, and mark what cannot be read.
func (s *Log) Lost(num uint64, d meta.Damage) {
	s.damage.Add(d)
	s.hurt.add(num)
}

// stray notes a segment that is not part of the log: it was restored from a copy,
// or belongs to another store. It is left where it is, and not read.
func (s *Log) stray(num uint64) {
	s.damage.Add(meta.Damage{Kind: meta.DamageFile, State: meta.DamageMended, File: s.Name(num), Reason: "the segment is not part of the log any more; it is left alone: remove it, or rebuild the index to read it"})
}

// numbers are segments that somebody has to look at.
type numbers struct {
	mu  sync.Mutex
	set map[uint64]struct{}
}

func (n *numbers) add(num uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[uint64]struct{}{}
	}
	n.set[num] = struct{}{}
}

// take empties n.
func (n *numbers) take() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	nums := slices.Sorted(maps.Keys(n.set))
	clear(n.set)
	return nums
}
