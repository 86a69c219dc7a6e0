package store

import (
	"allium/store/arena"
	"allium/store/memory"
)

// RAM is what the memory backend holds, in bytes: Limit is the cap, Used what
// is taken of it, Wasted how much of that is rounding, Touched at most what the
// process has of the system for it; Locked says that it is never swapped out.
type RAM = arena.Stats

// RAM returns the account of the memory backend; all zero for another one, and
// before Run has called ready.
func (s *Store) RAM() RAM {
	if a := s.arena(); a != nil {
		return a.Stats()
	}
	return RAM{}
}

// LockError says why the memory backend's bytes may be written to swap; nil
// when they may not, for another backend, and before Run has called ready.
func (s *Store) LockError() error {
	if a := s.arena(); a != nil {
		return a.LockError()
	}
	return nil
}

func (s *Store) arena() *arena.Arena {
	if m, ok := s.backend.(*memory.Backend); ok && s.admission.Opened() {
		return m.Arena()
	}
	return nil
}
