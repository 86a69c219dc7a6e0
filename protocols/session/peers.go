package session

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/oap"
)

// peerEntry is what the sessions with one peer share. It lives as long as one
// of them does.
type peerEntry struct {
	id      peer.ID
	permits permits
	rate    *limits.Rate
	frames  atomic.Uint64 // queued so far, where their age matters

	// Guarded by Service.mu.
	refs   int
	opened *opening         // the session we opened or are opening
	links  map[*link]string // all sessions, to the id of their connection
}

// entry returns p's entry with one more reference. The caller holds s.mu.
func (s *Service) entry(p peer.ID) *peerEntry {
	e := s.peers[p]
	if e == nil {
		rate, ok := s.rates.Get(p)
		if !ok {
			rate = s.rateFamily.Bucket()
			s.rates.Add(p, rate)
		}
		e = &peerEntry{id: p, rate: rate, links: map[*link]string{}, permits: permits{
			frames: s.frames.Budget(), bytes: s.bytes.Budget(), node: s.egress, wait: s.cfg.PermitWait, m: s.m,
		}}
		e.permits.outweigh = func(n int64) bool { return s.outweigh(e, n) }
		if s.cfg.EgressPolicy == DropOldest {
			e.permits.makeRoom = func(b *limits.Budget, n int64) bool { return s.makeRoom(e, b, n) }
		}
		s.peers[p] = e
	}
	e.refs++
	return e
}

// rateOf returns the rate of an IP group. The caller holds s.mu.
func (s *Service) rateOf(g ipgroup.Group) *limits.Rate {
	rate, ok := s.groupRates.Get(g)
	if !ok {
		rate = s.groupRate.Bucket()
		s.groupRates.Add(g, rate)
	}
	return rate
}

// unref drops a reference. The caller holds s.mu.
func (s *Service) unref(e *peerEntry) {
	if e.refs--; e.refs == 0 {
		delete(s.peers, e.id)
	}
}

// attach makes the link of a stream and a place for it in the table; nil: the
// service takes no sessions now. A peer has one session a connection and
// direction, and opens peer_sessions in all: older ones make room.
func (s *Service) attach(stream network.Stream, opened bool) *link {
	s.mu.Lock()
	if s.running == nil || s.draining.Load() {
		s.mu.Unlock()
		return nil
	}
	e := s.entry(stream.Conn().RemotePeer())
	l := s.newLink(s.running, e, stream, opened)
	older := e.supplanted(stream.Conn().ID(), opened, int(s.cfg.PeerSessions))
	e.links[l] = stream.Conn().ID()
	s.wg.Add(1)
	s.mu.Unlock()
	for _, o := range older {
		s.m.supplanted.Inc()
		o.fail(errSupplanted)
	}
	return l
}

// supplanted lists the sessions that make room for another of the connection:
// one over it, and the oldest of more than most less one. The caller holds
// Service.mu.
func (e *peerEntry) supplanted(conn string, opened bool, most int) (older []*link) {
	var others []*link
	for o, c := range e.links {
		switch {
		case o.opened != opened || o.ended.Load():
		case c == conn:
			older = append(older, o)
		case !opened: // those that this node opens it opens one after the other
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(a, b *link) int { return a.since.Compare(b.since) })
	return append(older, others[:max(0, len(others)-most+1)]...)
}

// detach forgets a link that ended.
func (s *Service) detach(l *link) {
	s.mu.Lock()
	delete(l.peer.links, l)
	s.unref(l.peer)
	s.mu.Unlock()
	s.wg.Done()
}

// links lists all sessions, those in their handshake too.
func (s *Service) links() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*link
	for _, e := range s.peers {
		for l := range e.links {
			all = append(all, l)
		}
	}
	return all
}

// fullest returns a function that says how much of a budget the peer has taken
// that has taken most of it.
func (s *Service) fullest(of func(*permits) *limits.Budget) func() int64 {
	return func() (most int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.peers {
			most = max(most, of(&e.permits).Used())
		}
		return most
	}
}

// MaxFrame is the largest frame that either side sends on any stream of the
// connection, in bytes, header included: what HELLO negotiated, else oap.MaxFrame.
func (s *Service) MaxFrame(c network.Conn) uint32 {
	if n, ok := s.lowered.Get(c.ID()); ok {
		return n
	}
	return oap.MaxFrame
}

// agree notes what a HELLO negotiated, for as long as the connection may live. Of
// the values of two sessions, which may be opened at once, the smaller one holds.
func (s *Service) agree(c network.Conn, maxFrame uint32) {
	s.agreeing.Lock()
	defer s.agreeing.Unlock()
	if before := s.MaxFrame(c); maxFrame < before {
		s.lowered.Add(c.ID(), maxFrame)
	}
}

// Info is one session as it is shown to people.
type Info struct {
	Peer     peer.ID
	Agent    string            // the user agent of an opener; an acceptor does not say
	Dir      network.Direction // outbound: this node opened it
	Age      time.Duration
	Inflight int // requests not yet answered
	MaxFrame uint32
}

// Sessions lists the sessions whose HELLO is done, oldest first.
func (s *Service) Sessions() []Info {
	var infos []Info
	now := time.Now()
	for _, l := range s.links() {
		if i, ok := l.info(now); ok {
			infos = append(infos, i)
		}
	}
	slices.SortStableFunc(infos, func(a, b Info) int { return cmp.Compare(b.Age, a.Age) })
	return infos
}

func (l *link) info(now time.Time) (Info, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return Info{}, false
	}
	dir := network.DirInbound
	if l.opened {
		dir = network.DirOutbound
	}
	return Info{
		Peer: l.peer.id, Agent: l.agent, Dir: dir, Age: now.Sub(l.since), Inflight: len(l.flight), MaxFrame: l.maxFrame.Load(),
	}, true
}
