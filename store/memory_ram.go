package store

import (
	"allium/store/arena"
	"allium/store/memory"
)

// RAM returns the account of the memory backend, in bytes; all zero for another one, and
// before Run has called ready.
func (s *Store) RAM() arena.Stats {
	if a := s.arena(); a != nil {
		return a.Stats()
	}
	return arena.Stats{}
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
