package providers

import (
	"context"
	"maps"
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
// The DHT is asked only when a reader has read the list up to there; for the object
// beside the directory, when that takes longer than Config.HedgeAfter. The list
// grows while it is read. Each peer appears once. Any number of goroutines may
// read it.
type Candidates struct {
	p     *Pool
	tasks Tasks
	trace *trace.Lookup // set before the list is read
	roots []b3.Root     // the object, and the directory of it if that is known
	inner bool          // the object is inside a directory

	mu    sync.Mutex // lock: metadata, before lookups.mu and trace.Lookup.mu
	peers []candidate
	drawn int // how many of peers were handed out
	seen  map[peer.ID]struct{}
	feeding
	err error // the error of a failed lookup
}

// feeding are the lookups whose peers a list gets.
type feeding struct {
	next  []nextLookup // those that were not read yet
	open  []reading    // those being read
	since time.Time    // when the latest of them was joined
}

// nextLookup is a lookup that the list will read.
type nextLookup struct {
	root  b3.Root
	want  int  // more than were read of a remembered lookup
	fresh bool // nothing that is remembered counts
}

// reading is a lookup that the list reads.
type reading struct {
	*lookup
	n int // how many of its providers were read
}

// maxOpen bounds the lookups that one list reads at a time.
const maxOpen = 2

// candidate is a peer to ask.
type candidate struct {
	peer.AddrInfo
	origin  record.Origin
	claimed bool // it claims to have the object itself, not only the directory of it
}

// Candidates returns the list of candidates for root. The caller closes it.
func (p *Pool) Candidates(tasks Tasks, root b3.Root, from Sources) *Candidates {
	s := &Candidates{p: p, tasks: tasks, inner: from.Inner, seen: map[peer.ID]struct{}{}, roots: []b3.Root{root}}
	s.Add(from.Peers...)
	if !from.Via.IsZero() && from.Via != root {
		s.roots, s.inner = append(s.roots, from.Via), true
		s.addServed(from.Via)
	}
	s.next = s.search(false)
	s.addServed(root)
	told := s.hints()
	s.add(told[:min(len(told), firstHints)]...)
	return s
}

// search returns the lookups of the list, that of the directory first.
func (s *Candidates) search(fresh bool) (next []nextLookup) {
	for _, root := range slices.Backward(s.roots) {
		next = append(next, nextLookup{root, 1, fresh})
	}
	return next
}

// Renew lets the list search once more, after its peers have failed. Peers that it has may be found at other
// addresses, which the dialer is told, and new ones are appended.
func (s *Candidates) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 && len(s.next) == 0 {
		s.next = s.search(true)
	}
}

// addServed appends the peer that served root.
func (s *Candidates) addServed(root b3.Root) {
	if by, ok := s.p.served.Get(root); ok {
		s.add(candidate{AddrInfo: peer.AddrInfo{ID: by}, origin: record.OriginServed})
	}
}

// firstHints is the number of peers that announced the object and are asked before the
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
	_ = s.addLocked(peers...)
}

// addLocked is add for a caller that holds the lock. It returns the peers that are in the list.
func (s *Candidates) addLocked(peers ...candidate) (again []candidate) {
	for _, p := range peers {
		if p.ID == "" || p.ID == s.p.self {
			continue
		}
		if _, ok := s.seen[p.ID]; ok {
			again = append(again, p)
			continue
		}
		s.seen[p.ID] = struct{}{}
		s.peers = append(s.peers, p)
	}
	return again
}

// Look asks connected peers that are not in the list whether they have the object, or a part of it because they
// fetch it themselves, and appends those that do. It asks at most 64, for at most Config.StallTimeout each.
func (s *Candidates) Look(ctx context.Context) {
	if s.p.connected == nil {
		return
	}
	s.mu.Lock()
	known := maps.Clone(s.seen)
	s.mu.Unlock()
	s.p.connected.look(ctx, s.roots[0], known, func(id peer.ID) {
		s.add(candidate{AddrInfo: peer.AddrInfo{ID: id}, origin: record.OriginConnected})
	})
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
		p, open := s.known(i, patient)
		if p.ID != "" {
			return p, true, nil
		}
		if len(open) == 0 {
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
		got, ok := s.await(wait, open)
		late := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return peer.AddrInfo{}, false, ctx.Err()
		case ok:
			s.advance(got)
		case late:
			patient = false
		default:
			s.hedge()
		}
	}
}

// news is the next provider of a lookup that is being read, or the lookup's end.
type news struct {
	reading
	found record.Provider
	ended bool
}

// await waits for news of the lookups in open. ok is false when ctx has ended, or when it is time to read another
// one beside them.
func (s *Candidates) await(ctx context.Context, open []reading) (got news, ok bool) {
	slow := time.NewTimer(s.p.cfg.Load().HedgeAfter)
	defer slow.Stop()
	for {
		var changed [maxOpen]<-chan struct{}
		for k, r := range open {
			found, wake := r.read(r.n)
			switch {
			case len(found) > 0:
				return news{reading: r, found: found[0]}, true
			case wake == nil:
				return news{reading: r, ended: true}, true
			}
			changed[k] = wake
		}
		select {
		case <-changed[0]:
		case <-changed[1]:
		case <-slow.C:
			return news{}, false
		case <-ctx.Done():
			return news{}, false
		}
	}
}

// hedge lets the next lookup be read beside one that takes long.
func (s *Candidates) hedge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) < maxOpen && time.Since(s.since) >= s.p.cfg.Load().HedgeAfter {
		s.openNext()
	}
}

// openNext joins the next lookup, if there is one. The caller holds the lock.
func (s *Candidates) openNext() {
	if len(s.next) == 0 {
		return
	}
	next := s.next[0]
	s.next = s.next[1:]
	opt := FindOptions{Inner: s.inner, Fresh: next.fresh}
	s.open = append(s.open, reading{s.p.lookups.join(s.tasks, next.root, opt, next.want, s.trace), 0})
	s.since = time.Now()
}

// betterWait is the time that the list waits for another peer when those that it knows were silent a
// short time ago, or their breakers are open.
const betterWait = 50 * time.Millisecond

// doubtful reports whether a peer should be asked after others. It was late with a request that
// another one answered, or its breaker is open.
func (t *peers) doubtful(p candidate) bool {
	traits := t.traits(p.ID, time.Now())
	return traits.Breaker == BreakerOpen || traits.Silent > 0
}

// sort puts doubtful peers that were not handed out behind the others, the best of them first. The
// caller holds the lock.
func (s *Candidates) sort() (doubtful bool) {
	rest := s.peers[s.drawn:]
	if !slices.ContainsFunc(rest, s.p.peers.doubtful) {
		return false
	}
	var good, bad []candidate
	for _, p := range rest {
		if s.p.peers.doubtful(p) {
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

// known returns the i-th peer if it is known, otherwise the lookups to wait for.
// When all lookups are read it returns neither. If patient, it does not
// return a doubtful peer.
func (s *Candidates) known(i int, patient bool) (peer.AddrInfo, []reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.peers) && (i < s.drawn || !s.sort() || !patient) {
		for ; s.drawn <= i; s.drawn++ {
			s.p.m.sources.WithLabelValues(string(s.peers[s.drawn].origin)).Inc()
			s.trace.Peer(s.peers[s.drawn].ID, sources[s.peers[s.drawn].origin])
		}
		return s.peers[i].AddrInfo, nil
	}
	if len(s.open) == 0 {
		s.openNext()
	}
	return peer.AddrInfo{}, slices.Clone(s.open)
}

// advance records news of a lookup, unless another goroutine has done
// so. When the lookup has ended, advance appends the remaining hints.
func (s *Candidates) advance(got news) {
	var late []candidate
	if got.ended {
		late = s.hints()
	}
	s.mu.Lock()
	at := slices.Index(s.open, got.reading)
	if at < 0 {
		s.mu.Unlock()
		return
	}
	if !got.ended {
		again := s.addLocked(candidate{got.found.AddrInfo, got.found.Origin, got.root == s.roots[0]})
		s.open[at].n++
		s.mu.Unlock()
		moved(s.p.dialer, again)
		return
	}
	end := got.outcome()
	if end.err != nil {
		s.err = end.err
	}
	s.open = slices.Delete(s.open, at, at+1)
	if end.err == nil && got.cached() && !end.complete {
		// The remembered lookup ended when its users had enough: there may be others.
		s.next = append([]nextLookup{{got.root, got.n + 1, false}}, s.next...)
	}
	again := s.addLocked(late...)
	s.mu.Unlock()
	moved(s.p.dialer, again)
	s.p.lookups.leave(got.lookup)
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

// Close ends the lookups that are being read.
func (s *Candidates) Close() {
	s.mu.Lock()
	open := s.open
	s.open, s.next = nil, nil
	s.mu.Unlock()
	for _, r := range open {
		s.p.lookups.leave(r.lookup)
	}
}
