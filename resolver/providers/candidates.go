package providers

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/resolver/trace"
)

// Candidates is the list of peers to ask for an object, in the order of SPEC §6:
//
//  1. the peers that the caller named;
//  2. the peer that served the parent directory;
//  3. two peers that announced the object or its parent by gossip;
//  4. the peers that the DHT finds, for the parent first, because few objects
//     inside a directory are announced, then for the object itself;
//  5. the other peers that announced the object or its parent.
//
// The DHT is asked only when a reader has read the list up to there. The list
// grows while it is read. Each peer appears once. Any number of goroutines may
// read it.
type Candidates struct {
	p     *Pool
	tasks Tasks
	trace *trace.Lookup // set before the list is read

	hinted []b3.Root // the roots whose announcements count

	mu    sync.Mutex
	peers []candidate
	drawn int // how many of peers were handed out
	seen  map[peer.ID]struct{}
	keys  []b3.Root // roots whose providers were not looked up yet
	cur   *lookup   // the lookup being read
	n     int       // how many providers of cur were read
	err   error     // the error of a failed lookup
}

// candidate is a peer to ask.
type candidate struct {
	peer.AddrInfo
	origin record.Origin
}

// Candidates returns the list of candidates for root. The caller closes it.
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

// firstHints is how many peers that announced the object are asked before the
// DHT. The others are asked when its lookup has ended. Anyone with a key can
// announce anything, from any number of addresses that do not answer. Such
// announcements must not take the place of all other providers.
const firstHints = 2

// hints returns the peers that have announced the object or its parent.
func (s *Candidates) hints() (peers []peer.AddrInfo) {
	for _, root := range s.hinted {
		for _, p := range s.p.hints(root) {
			peers = append(peers, p.AddrInfo)
		}
	}
	return peers
}

// Add appends peers that the caller names, unless they are in the list.
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

// Count returns how many peers are known so far.
func (s *Candidates) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// At waits for the i-th peer. ok is false when the list has ended before it. The
// only error is ctx's.
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

// next returns the i-th peer if it is known, otherwise the lookup to wait for and
// the position in it. When all lookups are read it returns neither.
func (s *Candidates) next(i int) (peer.AddrInfo, *lookup, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.peers) {
		for ; s.drawn <= i; s.drawn++ {
			s.p.m.sources.WithLabelValues(string(s.peers[s.drawn].origin)).Inc()
			s.trace.Peer(s.peers[s.drawn].ID, sources[s.peers[s.drawn].origin])
		}
		return s.peers[i].AddrInfo, nil, 0
	}
	if s.cur == nil && len(s.keys) > 0 {
		s.cur, s.n = s.p.lookups.join(s.tasks, s.keys[0], false), 0
		s.keys = s.keys[1:]
	}
	return peer.AddrInfo{}, s.cur, s.n
}

// advance records what cur had at position n, unless another goroutine has done
// so. When the lookup has ended, advance appends the remaining hints.
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

// Failure returns the error of the last lookup that failed, or nil.
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
