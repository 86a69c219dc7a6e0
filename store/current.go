package store

import (
	"allium/protocols/b3"
	"allium/store/meta"
)

// maxMoves bounds how often one read follows a record that compaction moves.
const maxMoves = 8

// readCurrent reads the small object e and proves it. Compaction may have moved
// its record since e was looked up, and the file may hold others by now: then it
// is read where it is now, and e says where that was. Only what is wrong at its
// current place is damage.
func (s *Store) readCurrent(e *meta.Entry) (*b3.Memory, error) {
	for moves := 0; ; moves++ {
		mem, err := s.readAt(*e)
		if err == nil || moves == maxMoves {
			return mem, err
		}
		now, ok, lost := s.backend.Get(e.Root)
		if lost != nil || !ok || now.SamePlace(*e) {
			return nil, err
		}
		*e = now
	}
}

func (s *Store) readAt(e meta.Entry) (*b3.Memory, error) {
	p, err := s.backend.Read(e)
	if err != nil {
		return nil, err
	}
	return s.hash.Memory(e.Root, p, nil)
}
