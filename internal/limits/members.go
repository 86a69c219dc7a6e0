package limits

import "sync"

// WaitGateFamily is a set of [Gate] under one limit, one gate for each peer. Refusals are those of all
// gates together; current and peak are those of the fullest. The caller owns the gates and bounds
// their number.
type WaitGateFamily struct {
	m       *meter
	waiting int64
}

// NewWaitGateFamily lists a limit for gates at each of which n requests (≥ 1) run and m (≥ 0) wait.
func (r *Registry) NewWaitGateFamily(s Spec, n, m int64) *WaitGateFamily {
	return &WaitGateFamily{m: r.addFamily(s, KindGate, n, nil), waiting: m}
}

// Set lets n requests (≥ 1) run at each gate that the family makes from now on. The caller resizes those that it has.
func (f *WaitGateFamily) Set(n int64) { f.m.size.Store(n) }

// Gate returns a new, unused gate of the family.
func (f *WaitGateFamily) Gate() *Gate {
	var unlisted *Registry
	g := unlisted.NewGate(f.m.spec, f.m.cap(), f.waiting)
	g.m.family = f.m
	return g
}

// addFamily makes and lists the meter of a family. fullest returns how much of the fullest member is
// in use; if it is nil, the meter counts that itself.
func (r *Registry) addFamily(s Spec, kind Kind, capacity int64, fullest func() int64) *meter {
	m := newMeter(s, kind, capacity)
	if m.depth = fullest; fullest == nil {
		m.members = &members{used: map[*meter]struct{}{}}
		m.depth = m.members.fullest
	}
	r.list(m)
	return m
}

// members is the set of the members of a family of which something is in use. A nil set counts none.
type members struct {
	mu   sync.Mutex // guards used; lock: leaf
	used map[*meter]struct{}
}

// update notes whether something of m is in use. Callers call it after the use of m began or ended,
// so the last of concurrent calls sees how it is.
func (s *members) update(m *meter) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.current.Load() > 0 {
		s.used[m] = struct{}{}
	} else {
		delete(s.used, m)
	}
}

// fullest returns how much of the fullest member is in use.
func (s *members) fullest() (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.used {
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
	return int64(len(s.used))
}
