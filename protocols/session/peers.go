package session

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// peerEntry is the state that all sessions with one peer share. It exists while there
// is a session or an opening.
type peerEntry struct {
	id      peer.ID
	permits permits
	rate    *limits.Rate
	frames  atomic.Uint64 // number of queued frames so far, for egress_policy drop_oldest

	// Guarded by Service.mu.
	refs   int
	opened *opening         // the session that this node opened or opens
	links  map[*link]string // all sessions, with the id of their connection
}

// entry returns the entry of p and adds a reference. The caller holds s.mu and must
// call unref later.
func (s *Service) entry(p peer.ID) *peerEntry {
	e := s.peers[p]
	if e == nil {
		e = &peerEntry{id: p, rate: s.rates.Of(p), links: map[*link]string{}, permits: permits{
			frames: s.frames.Member(), bytes: s.bytes.Member(), node: s.egress, wait: s.cfg.Load().PermitWait, m: s.m,
		}}
		e.permits.dropFromLargest = func(n int64) bool { return s.dropFromLargest(e, n) }
		if s.cfg.Load().EgressPolicy == DropOldest {
			e.permits.dropOldest = func(b *limits.Budget, n int64) bool { return s.dropOldest(e, b, n) }
		}
		s.peers[p] = e
	}
	e.refs++
	return e
}

// unref drops a reference. The caller holds s.mu.
func (s *Service) unref(e *peerEntry) {
	if e.refs--; e.refs == 0 {
		delete(s.peers, e.id)
	}
}

// attach creates the link of a stream and adds it to the table. It returns nil if the
// service is stopped or draining. A peer has one session for each connection and
// direction, and may open peer_sessions in total. The new session replaces older
// ones beyond that.
func (s *Service) attach(stream network.Stream, opened bool) *link {
	s.mu.Lock()
	if s.running == nil || s.inflight.Closed() {
		s.mu.Unlock()
		return nil
	}
	e := s.entry(stream.Conn().RemotePeer())
	l := s.newLink(s.running, e, stream, opened)
	older := e.supplanted(stream.Conn().ID(), opened, int(s.cfg.Load().PeerSessions))
	e.links[l] = stream.Conn().ID()
	s.wg.Add(1)
	s.mu.Unlock()
	for _, o := range older {
		s.m.supplanted.Inc()
		o.fail(errSupplanted)
	}
	return l
}

// supplanted returns the sessions that a new session over conn replaces. These are
// the session over the same connection and direction, and the oldest sessions of the
// peer beyond limit-1. The caller holds Service.mu.
func (e *peerEntry) supplanted(conn string, opened bool, limit int) (older []*link) {
	var others []*link
	for o, c := range e.links {
		switch {
		case o.opened != opened || o.ended.Load():
		case c == conn:
			older = append(older, o)
		case !opened: // this node opens at most one session at a time, so it needs no limit
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(a, b *link) int { return a.since.Compare(b.since) })
	return append(older, others[:max(0, len(others)-limit+1)]...)
}

// detach removes a link that ended.
func (s *Service) detach(l *link) {
	s.mu.Lock()
	delete(l.peer.links, l)
	s.unref(l.peer)
	s.mu.Unlock()
	s.wg.Done()
}

// links returns all sessions, including those before their HELLO.
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

// fullest returns a function for the highest value of used among all peers.
func (s *Service) fullest(used func(*peerEntry) int64) func() int64 {
	return func() (highest int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.peers {
			highest = max(highest, used(e))
		}
		return highest
	}
}

// mostInflight returns how many requests are being answered of the session that has most. The caller
// holds Service.mu.
func (e *peerEntry) mostInflight() (most int64) {
	for l := range e.links {
		most = max(most, l.places.Used())
	}
	return most
}

// MaxFrame returns the longest frame of all streams of the connection in bytes,
// including the header. It is the value of HELLO, or oap.MaxFrame before a HELLO.
func (s *Service) MaxFrame(c network.Conn) uint32 {
	if n, ok := s.maxFrames.Get(c.ID()); ok {
		return n
	}
	return oap.MaxFrame
}

// recordMaxFrame records the max_frame that a HELLO negotiated for the connection. If two
// sessions over one connection negotiate different values, the smaller one applies.
func (s *Service) recordMaxFrame(c network.Conn, maxFrame uint32) {
	s.maxFramesMu.Lock()
	defer s.maxFramesMu.Unlock()
	if before := s.MaxFrame(c); maxFrame < before {
		s.maxFrames.Add(c.ID(), maxFrame)
	}
}

// Info describes one session to an operator.
type Info struct {
	Peer     peer.ID
	Agent    string            // the opener's user agent; empty if this node opened the session
	Dir      network.Direction // outbound: this node opened it
	Age      time.Duration
	Inflight int    // requests without an answer
	MaxFrame uint32 // bytes
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
		Peer: l.peer.id, Agent: l.said.agent, Dir: dir, Age: now.Sub(l.since),
		Inflight: len(l.requests), MaxFrame: l.maxFrame.Load(),
	}, true
}
