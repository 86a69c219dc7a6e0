package pack

import (
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
	"weak"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// state is one verified state of a pack. It is closed when it was replaced and its last reader has
// let go of it.
type state struct {
	archive archive
	root    b3.Root      // of the pack; zero for a file
	file    *fileSource  // nil for an object
	size    int64        // in bytes
	version string       // differs for packs of other bytes: 16 hex digits
	named   bool         // a name stands for root
	allowed func() error // nil: nothing that leads to root can be denied; see Found
	keep    func()       // lets the object be evicted again; nil: it may be
	since   time.Time    // when it was mounted
	self    weak.Pointer[state]

	users atomic.Int64 // its readers, and one while it is mounted
}

// newState returns a mounted state of size bytes. file is nil for the object root.
func newState(a archive, root b3.Root, file *fileSource, size int64) *state {
	s := &state{archive: a, root: root, file: file, size: size, since: time.Now()}
	id := root
	if file != nil {
		var facts [16]byte
		binary.BigEndian.PutUint64(facts[:], uint64(file.size))                 //nolint:gosec // a size is not negative
		binary.BigEndian.PutUint64(facts[8:], uint64(file.modified.UnixNano())) //nolint:gosec // any bits do
		id = b3.Sum(facts[:])
	}
	s.version = hex.EncodeToString(id[:8])
	s.self = weak.Make(s)
	s.users.Store(1)
	return s
}

// unchanged returns not_ready if the file of the pack was written since it was verified.
func (s *state) unchanged() error {
	if s.file != nil && s.file.changed() {
		return status.Errorf(status.NotReady,
			"the file of the pack was changed and is being verified again. Try again soon")
	}
	return nil
}

// enter reports whether the state is open, and keeps it open until leave.
func (s *state) enter() bool {
	for {
		n := s.users.Load()
		if n == 0 {
			return false
		}
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends what enter, or newState, began. The last caller closes the pack.
func (s *state) leave() {
	if s.users.Add(-1) > 0 {
		return
	}
	_ = s.archive.Close() // it was only read
	if s.file != nil {
		_ = s.file.Close()
	}
	if s.keep != nil {
		s.keep()
	}
}
