package resolver

import (
	"context"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

// sources is the list of peers to ask for an object, in the order of SPEC §6:
// those the caller named, the one that served the parent, two that announced
// the object or its parent, then whom the DHT finds, for the parent first (few
// objects inside a directory are announced) and at last for the object itself.
// The DHT is asked when somebody wants more than the others. The list grows while
// it is read, by any number of goroutines; each peer appears once.
type sources struct {
	r    *Resolver
	life *life

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
	origin Origin
}

// Sources names who may have an object, beside its own providers.
type Sources struct {
	Peers []peer.AddrInfo // asked first; addresses may be left out for peers already connected
	Via   b3.Root         // a directory the object is part of, whose providers are asked before the object's own; zero for none
}

// newSources lists the candidates for root. The caller closes it.
func (r *Resolver) newSources(l *life, root b3.Root, from Sources) *sources {
	s := &sources{r: r, life: l, seen: map[peer.ID]struct{}{}, keys: []b3.Root{root}, hinted: []b3.Root{root}}
	s.add(OriginNamed, from.Peers...)
	if !from.Via.IsZero() && from.Via != root {
		s.keys, s.hinted = []b3.Root{from.Via, root}, []b3.Root{root, from.Via}
		if p, ok := r.served.Get(from.Via); ok {
			s.add(OriginServed, peer.AddrInfo{ID: p})
		}
	}
	if p, ok := r.served.Get(root); ok {
		s.add(OriginServed, peer.AddrInfo{ID: p})
	}
	told := s.hints()
	s.add(OriginGossip, told[:min(len(told), firstHints)]...)
	return s
}

// firstHints is how many of those that announced the object are asked before the
// DHT is; the others have their turn when its lookup has ended. Whoever has a key
// can announce anything, from as many addresses where nobody answers as it likes,
// and may not have all the places among the providers that are waited for.
const firstHints = 2

// hints is who announced the object or its parent until now.
func (s *sources) hints() (peers []peer.AddrInfo) {
	for _, root := range s.hinted {
		for _, p := range s.r.hints(root) {
			peers = append(peers, p.Addr)
		}
	}
	return peers
}

// add appends peers that are not in the list yet.
func (s *sources) add(from Origin, peers ...peer.AddrInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(from, peers...)
}

func (s *sources) addLocked(from Origin, peers ...peer.AddrInfo) {
	for _, p := range peers {
		if _, ok := s.seen[p.ID]; ok || p.ID == "" || p.ID == s.r.self {
			continue
		}
		s.seen[p.ID] = struct{}{}
		s.peers = append(s.peers, candidate{p, from})
	}
}

// count is how many peers are known.
func (s *sources) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// at waits for the i-th peer. ok is false when there are not so many; err is
// ctx's alone.
func (s *sources) at(ctx context.Context, i int) (p peer.AddrInfo, ok bool, err error) {
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
func (s *sources) next(i int) (peer.AddrInfo, *lookup, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.peers) {
		for ; s.drawn <= i; s.drawn++ {
			s.r.m.sources.WithLabelValues(string(s.peers[s.drawn].origin)).Inc()
		}
		return s.peers[i].AddrInfo, nil, 0
	}
	if s.cur == nil && len(s.keys) > 0 {
		s.cur, s.n = s.r.lookups.join(s.life, s.keys[0], false), 0
		s.keys = s.keys[1:]
	}
	return peer.AddrInfo{}, s.cur, s.n
}

// advance records what cur had at position n, unless another goroutine did. When
// a lookup has ended, the others who announced the object count too.
func (s *sources) advance(cur *lookup, n int, found Provider, ok bool, err error) {
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
		s.addLocked(OriginDHT, found.Addr)
		s.n++
		s.mu.Unlock()
		return
	}
	if err != nil {
		s.err = err
	}
	s.cur = nil
	s.addLocked(OriginGossip, late...)
	s.mu.Unlock()
	s.r.lookups.leave(cur)
}

// failure is why a lookup failed, if one did.
func (s *sources) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends the lookup that is being read.
func (s *sources) close() {
	s.mu.Lock()
	cur := s.cur
	s.cur, s.keys = nil, nil
	s.mu.Unlock()
	if cur != nil {
		s.r.lookups.leave(cur)
	}
}
