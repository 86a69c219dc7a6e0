package limits

import (
	"sync"

	"allium/internal/linked"
)

// join makes m the meter of a new member of a family.
func (m *meter) join(family *meter) {
	m.init(family.limit, family.cap())
	m.member = true
}

// members are the members of a family that are in use. A nil *members counts none.
type members struct {
	mu   sync.Mutex // guards used, and meter.listed of members; lock: leaf
	used linked.List[meter]
}

// update notes whether something of m is in use. Callers call it after the use of m began or ended,
// so the last of concurrent calls sees how it is.
func (s *members) update(m *meter) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	inUse := m.current.Load() > 0
	if inUse && !m.listed {
		s.used.Push(&m.node, m)
	} else if !inUse && m.listed {
		s.used.Remove(&m.node)
	}
	m.listed = inUse
}

// fullest returns how much of the fullest member is in use.
func (s *members) fullest() (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.used.FromOldest {
		most = max(most, m.current.Load())
	}
	return most
}

// count returns how many members are in use.
func (s *members) count() int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.used.Len())
}
