package transfer

import (
	"maps"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
)

// maxReached bounds peers.reached. A transfer asks fewer providers.
const maxReached = 64

// peers records the peers that sent something, and those that have connected. Its methods are safe for concurrent use.
type peers struct {
	mu      sync.Mutex // lock: leaf
	by      map[peer.ID]struct{}
	reached []peer.ID // connected since the driver looked, at most maxReached
}

// sent records that p sent something.
func (s *peers) sent(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[p] = struct{}{}
}

// senders returns the peers that sent something.
func (s *peers) senders() []peer.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.by))
}

// connected records that p is connected.
func (s *peers) connected(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reached) < maxReached {
		s.reached = append(s.reached, p)
	}
}

// takeReached returns the peers that have connected since the last call.
func (s *peers) takeReached() (ids []peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, s.reached = s.reached, nil
	return ids
}
