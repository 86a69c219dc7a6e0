package tree

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/resolver/providers"
)

// supply names the sources that a job asks, each once in a round: those of the tree, and those of the first object
// that is missing. Sources that were late in this tree come last. Its methods are safe for concurrent use.
type supply struct {
	t *tree
	// first returns the first object that is missing, or the zero root when none is.
	first func() b3.Root
	own   bool // the own providers of that object are asked, too

	mu      sync.Mutex // lock: leaf
	tree    *list
	inner   *list                // of an object that is missing; nil: there is none yet
	of      b3.Root              // that object
	failure error                // of the last search for its providers
	asked   map[peer.ID]struct{} // in this round
	back    map[peer.ID]struct{} // that were put back in this round
	spare   []peer.AddrInfo      // that come last
}

// list is a list of sources that is read.
type list struct {
	from  *providers.Candidates
	read  int  // how many of it were
	waits int  // calls of next that wait for it
	slow  bool // it has taken long to name the next
	ended bool // there are no others
}

// begin begins a round, which leaves out the sources in lost.
func (s *supply) begin(lost map[peer.ID]struct{}) {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.of, s.spare = &list{from: s.t.src}, b3.Root{}, nil
	s.asked, s.back = map[peer.ID]struct{}{}, map[peer.ID]struct{}{}
	for p := range lost {
		s.asked[p] = struct{}{}
	}
}

// next waits for the next source. ok is false when there is no other. The only error is ctx's. A call looks where
// no other call waits, if it can.
func (s *supply) next(ctx context.Context) (p peer.AddrInfo, ok bool, err error) {
	for {
		s.search()
		p, l := s.pick()
		if l == nil {
			return p, p.ID != "", nil
		}
		if p, ok, err = s.readFrom(ctx, l); ok || err != nil {
			return p, ok, err
		}
	}
}

// search begins to look for providers of the first missing object, which may have others too, when the tree's
// sources have all been asked or take long. It ends the search for another object.
func (s *supply) search() {
	if !s.own {
		return
	}
	missing := s.first()
	s.mu.Lock()
	s.tree.slow = s.tree.slow || s.tree.waits > 0
	begin := !missing.IsZero() && missing != s.of && (s.inner != nil || s.tree.ended || s.tree.slow)
	s.mu.Unlock()
	if !begin {
		return
	}
	from := s.t.f.pool.Candidates(s.t.tasks, missing, providers.Sources{Inner: true}).Record(s.t.trace)
	s.mu.Lock()
	before := s.inner
	s.inner, s.of = &list{from: from}, missing
	s.mu.Unlock()
	if before != nil {
		before.from.Close()
	}
}

// pick returns the list to read: one for which no other call waits, if there is one. Before a call waits beside
// another one, pick returns a source that comes last. It returns neither when all were asked.
func (s *supply) pick() (p peer.AddrInfo, from *list) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := []*list{s.tree, s.inner}
	if s.tree.slow {
		slices.Reverse(lists)
	}
	for _, l := range lists {
		if l != nil && !l.ended && (from == nil || from.waits > 0 && l.waits == 0) {
			from = l
		}
	}
	switch {
	case len(s.spare) > 0 && (from == nil || from.waits > 0):
		p, s.spare = s.spare[0], s.spare[1:]
		return p, nil
	case from != nil:
		from.waits++
	}
	return p, from
}

// readFrom reads the next source of a list. ok is false when the list has ended, or its source was asked in this
// round or comes last.
func (s *supply) readFrom(ctx context.Context, l *list) (p peer.AddrInfo, ok bool, err error) {
	s.mu.Lock()
	i := l.read
	s.mu.Unlock()
	p, ok, err = l.from.At(ctx, i)
	failure, late := l.from.Failure(), ok && s.t.peers.wasLate(p.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.waits--
	if err != nil {
		return p, false, err
	}
	if !ok {
		l.ended = true
		if l == s.inner && failure != nil {
			s.failure = failure
		}
		return p, false, nil
	}
	l.read = max(l.read, i+1)
	if _, again := s.asked[p.ID]; again {
		return p, false, nil
	}
	s.asked[p.ID] = struct{}{}
	if late {
		s.spare = append(s.spare, p)
	}
	return p, !late, nil
}

// putBack lets a source be asked once more in this round, after all others. It returns false if it has done so
// before.
func (s *supply) putBack(p peer.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.back[p]; again {
		return false
	}
	s.back[p] = struct{}{}
	s.spare = append(s.spare, peer.AddrInfo{ID: p})
	return true
}

// fail returns the error of a job whose sources did as attempts says.
func (s *supply) fail(attempts *providers.Attempts) error {
	failure := s.t.src.Failure()
	s.mu.Lock()
	failure = cmp.Or(s.failure, failure)
	s.mu.Unlock()
	return attempts.Error(s.first(), s.t.trace.ID().String(), failure)
}

// end ends the search for providers of a missing object.
func (s *supply) end() {
	s.mu.Lock()
	inner := s.inner
	s.inner = nil
	s.mu.Unlock()
	if inner != nil {
		inner.from.Close()
	}
}
