package providers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
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
	roots []b3.Root     // the object, and the directory of it if that is known

	mu    sync.Mutex
	peers []candidate
	drawn int // how many of peers were handed out
	seen  map[peer.ID]struct{}
	next  []nextLookup // the lookups that were not read yet
	cur   *lookup      // the lookup being read
	n     int          // how many providers of cur were read
	err   error        // the error of a failed lookup
}

// nextLookup is a lookup that the list will read.
type nextLookup struct {
	root b3.Root
	want int // more than were read of a remembered lookup
}

// candidate is a peer to ask.
type candidate struct {
	peer.AddrInfo
	origin  record.Origin
	claimed bool // it claims to have the object itself, not only the directory of it
}

// Candidates returns the list of candidates for root. The caller closes it.
func (p *Pool) Candidates(tasks Tasks, root b3.Root, from Sources) *Candidates {
	s := &Candidates{
		p: p, tasks: tasks, seen: map[peer.ID]struct{}{}, next: []nextLookup{{root, 1}}, roots: []b3.Root{root},
	}
	s.Add(from.Peers...)
	if !from.Via.IsZero() && from.Via != root {
		s.next, s.roots = []nextLookup{{from.Via, 1}, {root, 1}}, []b3.Root{root, from.Via}
		s.addServed(from.Via)
	}
	s.addServed(root)
	told := s.hints()
	s.add(told[:min(len(told), firstHints)]...)
	return s
}

// addServed appends the peer that served root.
func (s *Candidates) addServed(root b3.Root) {
	if by, ok := s.p.served.Get(root); ok {
		s.add(candidate{AddrInfo: peer.AddrInfo{ID: by}, origin: record.OriginServed})
	}
}

// firstHints is how many peers that announced the object are asked before the
// DHT. The others are asked when its lookup has ended. Anyone with a key can
// announce anything, from any number of addresses that do not answer. Such
// announcements must not take the place of all other providers.
const firstHints = 2

// hints returns the peers that have announced the object, the best first, and after
// them those that have announced its directory.
func (s *Candidates) hints() (told []candidate) {
	now := time.Now()
	for _, root := range s.roots {
		announced := s.p.hints(root)
		Rank(announced, func(p record.Provider) Traits { return s.p.peers.traits(p.ID, now) })
		for _, p := range announced {
			told = append(told, candidate{p.AddrInfo, record.OriginGossip, root == s.roots[0]})
		}
	}
	return told
}

// Add appends peers that the caller names, unless they are in the list.
func (s *Candidates) Add(peers ...peer.AddrInfo) {
	for _, p := range peers {
		s.add(candidate{AddrInfo: p, origin: record.OriginNamed})
	}
}

// add appends peers that are not in the list yet.
func (s *Candidates) add(peers ...candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(peers...)
}

func (s *Candidates) addLocked(peers ...candidate) {
	for _, p := range peers {
		if _, ok := s.seen[p.ID]; ok || p.ID == "" || p.ID == s.p.self {
			continue
		}
		s.seen[p.ID] = struct{}{}
		s.peers = append(s.peers, p)
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
	patient := true
	for {
		p, cur, n := s.known(i, patient)
		if p.ID != "" {
			return p, true, nil
		}
		if cur == nil {
			if patient { // nobody else is to be expected
				patient = false
				continue
			}
			return peer.AddrInfo{}, false, nil
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if patient && i < s.Count() {
			wait, cancel = context.WithTimeout(ctx, betterWait)
		}
		found, ok, err := cur.at(wait, n)
		late := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return peer.AddrInfo{}, false, ctx.Err()
		case late:
			patient = false
		default:
			s.advance(cur, n, found, ok, err)
		}
	}
}

// betterWait is how long the list waits for another peer when those that it knows were silent a
// short time ago, or their breakers are open.
const betterWait = 50 * time.Millisecond

// doubtful reports whether a peer should be asked after others. It was late with a request that
// another one answered, or its breaker is open.
func (s *Candidates) doubtful(p candidate) bool {
	if p.origin == record.OriginNamed {
		return false // the caller wants it asked
	}
	t := s.p.peers.traits(p.ID, time.Now())
	return t.Breaker == BreakerOpen || t.Silent > 0
}

// sort puts doubtful peers that were not handed out behind the others, the best of them first. The
// caller holds the lock.
func (s *Candidates) sort() (doubtful bool) {
	rest := s.peers[s.drawn:]
	if !slices.ContainsFunc(rest, s.doubtful) {
		return false
	}
	var good, bad []candidate
	for _, p := range rest {
		if s.doubtful(p) {
			bad = append(bad, p)
		} else {
			good = append(good, p)
		}
	}
	now := time.Now()
	Rank(bad, func(p candidate) Traits { return s.p.peers.traits(p.ID, now) })
	copy(rest[copy(rest, good):], bad)
	return len(good) == 0
}

// known returns the i-th peer if it is known, otherwise the lookup to wait for and
// the position in it. When all lookups are read it returns neither. If patient, it does not
// return a doubtful peer.
func (s *Candidates) known(i int, patient bool) (peer.AddrInfo, *lookup, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.peers) && (i < s.drawn || !s.sort() || !patient) {
		for ; s.drawn <= i; s.drawn++ {
			s.p.m.sources.WithLabelValues(string(s.peers[s.drawn].origin)).Inc()
			s.trace.Peer(s.peers[s.drawn].ID, sources[s.peers[s.drawn].origin])
		}
		return s.peers[i].AddrInfo, nil, 0
	}
	if s.cur == nil && len(s.next) > 0 {
		next, opt := s.next[0], FindOptions{Inner: len(s.roots) > 1}
		s.cur, s.n = s.p.lookups.join(s.tasks, next.root, opt, next.want, s.trace), 0
		s.next = s.next[1:]
	}
	return peer.AddrInfo{}, s.cur, s.n
}

// advance records what cur had at position n, unless another goroutine has done
// so. When the lookup has ended, advance appends the remaining hints.
func (s *Candidates) advance(cur *lookup, n int, found record.Provider, ok bool, err error) {
	var late []candidate
	if !ok {
		late = s.hints()
	}
	s.mu.Lock()
	if s.cur != cur || s.n != n {
		s.mu.Unlock()
		return
	}
	if ok {
		s.addLocked(candidate{found.AddrInfo, found.Origin, cur.root == s.roots[0]})
		s.n++
		s.mu.Unlock()
		return
	}
	if err != nil {
		s.err = err
	}
	s.cur = nil
	if err == nil && cur.cached() && !cur.outcome().complete {
		// The remembered lookup ended when its users had enough: there may be others.
		s.next = append([]nextLookup{{cur.root, n + 1}}, s.next...)
	}
	s.addLocked(late...)
	s.mu.Unlock()
	s.p.lookups.leave(cur)
}

// Refuted tells the list how a request to p failed. A peer that claimed to have the
// object and does not have it ranks lower from then on, for other objects too, and so
// does a peer that sent false bytes.
func (s *Candidates) Refuted(p peer.ID, err error) {
	s.mu.Lock()
	wrong := false
	if i := slices.IndexFunc(s.peers, func(c candidate) bool { return c.ID == p }); i >= 0 {
		o := status.Of(err)
		wrong = s.peers[i].claimed && o == status.NotFound || o == status.Corrupt
		s.peers[i].claimed = s.peers[i].claimed && !wrong // count once
	}
	s.mu.Unlock()
	if wrong {
		s.p.peers.refuted(p)
	}
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
	s.cur, s.next = nil, nil
	s.mu.Unlock()
	if cur != nil {
		s.p.lookups.leave(cur)
	}
}
