package providers

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/record"
)

// Candidates is the list of peers to ask for an object, in the order of SPEC §6:
// those the caller named, the one that served the parent, two that announced
// the object or its parent, then whom the DHT finds, for the parent first (few
// objects inside a directory are announced) and at last for the object itself.
// The DHT is asked when somebody wants more than the others. The list grows while
// it is read, by any number of goroutines; each peer appears once.
type Candidates struct {
	p     *Pool
	tasks Tasks

	hinted []b3.Root // whose announcements count

	mu    sync.Mutex
	peers []candidate
	drawn int // of peers, that were handed out
	seen  map[peer.ID]struct{}
	keys  []b3.Root // whose providers have not been looked up yet
	cur   *lookup   // the lookup being read
	n     int       // providers of cur in peers or dropped as known
	err   error     // why a lookup failed, for the error of the whole
}

// candidate is a peer to ask.
type candidate struct {
	peer.AddrInfo
	origin record.Origin
}

// Candidates lists the candidates for root. The caller closes the list.
func (p *Pool) Candidates(tasks Tasks, root b3.Root, from Sources) *Candidates {
	s := &Candidates{p: p, tasks: tasks, seen: map[peer.ID]struct{}{}, keys: []b3.Root{root}, hinted: []b3.Root{root}}
	s.add(record.OriginNamed, from.Peers...)
	if !from.Via.IsZero() && from.Via != root {
		s.keys, s.hinted = []b3.Root{from.Via, root}, []b3.Root{root, from.Via}
		if by, ok := p.served.Get(from.Via); ok {
			s.add(record.OriginServed, peer.AddrInfo{ID: by})
		}
	}
	if by, ok := p.served.Get(root); ok {
		s.add(record.OriginServed, peer.AddrInfo{ID: by})
	}
	told := s.hints()
	s.add(record.OriginGossip, told[:min(len(told), firstHints)]...)
	return s
}

// firstHints is how many of those that announced the object are asked before the
// DHT is; the others have their turn when its lookup has ended. Anyone with a key
// can announce anything, from any number of addresses where nobody answers. Such
// announcements must not fill all places among the providers.
const firstHints = 2

// hints is who announced the object or its parent until now.
func (s *Candidates) hints() (peers []peer.AddrInfo) {
	for _, root := range s.hinted {
		for _, p := range s.p.hints(root) {
			peers = append(peers, p.AddrInfo)
		}
	}
	return peers
}

// Add appends peers that the caller names and that are not in the list yet.
func (s *Candidates) Add(peers ...peer.AddrInfo) { s.add(record.OriginNamed, peers...) }

// add appends peers that are not in the list yet.
func (s *Candidates) add(from record.Origin, peers ...peer.AddrInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(from, peers...)
}

func (s *Candidates) addLocked(from record.Origin, peers ...peer.AddrInfo) {
	for _, p := range peers {
		if _, ok := s.seen[p.ID]; ok || p.ID == "" || p.ID == s.p.self {
			continue
		}
		s.seen[p.ID] = struct{}{}
		s.peers = append(s.peers, candidate{p, from})
	}
}

// Count is how many peers are known.
func (s *Candidates) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// At waits for the i-th peer. ok is false when there are not so many; err is
// ctx's alone.
func (s *Candidates) At(ctx context.Context, i int) (p peer.AddrInfo, ok bool, err error) {
	for {
		p, cur, n := s.next(i)
		if p.ID != "" {
			return p, true, nil
		}
		if cur == nil {
			return peer.AddrInfo{}, false, nil
		}
		found, ok, err := cur.at(ctx, n)
		if ctx.Err() != nil {
			return peer.AddrInfo{}, false, ctx.Err()
		}
		s.advance(cur, n, found, ok, err)
	}
}

// next returns the i-th peer if it is known, else the lookup to wait for and
// the position in it; neither when all lookups are read.
func (s *Candidates) next(i int) (peer.AddrInfo, *lookup, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.peers) {
		for ; s.drawn <= i; s.drawn++ {
			s.p.m.sources.WithLabelValues(string(s.peers[s.drawn].origin)).Inc()
		}
		return s.peers[i].AddrInfo, nil, 0
	}
	if s.cur == nil && len(s.keys) > 0 {
		s.cur, s.n = s.p.lookups.join(s.tasks, s.keys[0], false), 0
		s.keys = s.keys[1:]
	}
	return peer.AddrInfo{}, s.cur, s.n
}

// advance records what cur had at position n, unless another goroutine did. When
// a lookup has ended, the others who announced the object count too.
func (s *Candidates) advance(cur *lookup, n int, found record.Provider, ok bool, err error) {
	var late []peer.AddrInfo
	if !ok {
		late = s.hints()
	}
	s.mu.Lock()
	if s.cur != cur || s.n != n {
		s.mu.Unlock()
		return
	}
	if ok {
		s.addLocked(record.OriginDHT, found.AddrInfo)
		s.n++
		s.mu.Unlock()
		return
	}
	if err != nil {
		s.err = err
	}
	s.cur = nil
	s.addLocked(record.OriginGossip, late...)
	s.mu.Unlock()
	s.p.lookups.leave(cur)
}

// Failure is why a lookup failed, if one did.
func (s *Candidates) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the lookup that is being read.
func (s *Candidates) Close() {
	s.mu.Lock()
	cur := s.cur
	s.cur, s.keys = nil, nil
	s.mu.Unlock()
	if cur != nil {
		s.p.lookups.leave(cur)
	}
}
