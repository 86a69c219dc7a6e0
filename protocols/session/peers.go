package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/admission"
	"allium/protocols/oap"
)

// peerEntry is what the sessions with one peer share. It lives as long as one
// of them does.
type peerEntry struct {
	id      peer.ID
	permits permits
	rate    *admission.Rate

	// Guarded by Service.mu.
	refs   int
	opened *opening         // the session we opened or are opening
	links  map[*link]string // all sessions, to the id of their connection
}

// entry returns p's entry with one more reference. The caller holds s.mu.
func (s *Service) entry(p peer.ID) *peerEntry {
	e := s.peers[p]
	if e == nil {
		var unlisted *admission.Registry // one limit for each peer: the node's are listed
		rate, ok := s.rates.Get(p)
		if !ok {
			rate = s.rateFamily.Bucket()
			s.rates.Add(p, rate)
		}
		e = &peerEntry{id: p, rate: rate, links: map[*link]string{}, permits: permits{
			frames: unlisted.NewBudget(admission.Spec{Name: "session.egress_frames"}, s.cfg.EgressFrames),
			bytes:  unlisted.NewBudget(admission.Spec{Name: "session.peer_egress_bytes"}, int64(s.cfg.PeerEgressBytes)),
			node:   s.egress, wait: s.cfg.PermitWait, m: s.m,
		}}
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

// attach makes the link of a stream and a place for it in the table; nil: the
// service takes no sessions now. A peer has one session a connection and
// direction: an older one is supplanted.
func (s *Service) attach(stream network.Stream, opened bool) *link {
	s.mu.Lock()
	if s.running == nil || s.draining.Load() {
		s.mu.Unlock()
		return nil
	}
	e := s.entry(stream.Conn().RemotePeer())
	l := s.newLink(s.running, e, stream, opened)
	conn := stream.Conn().ID()
	var older []*link
	for o, c := range e.links {
		if o.opened == opened && c == conn {
			older = append(older, o)
		}
	}
	e.links[l] = conn
	s.wg.Add(1)
	s.mu.Unlock()
	for _, o := range older {
		o.fail(errSupplanted)
	}
	return l
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

// MaxFrame is the largest frame to send to p on any stream of the connection,
// in bytes, header included: what HELLO negotiated, else oap.MaxFrame.
func (s *Service) MaxFrame(p peer.ID) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := uint32(oap.MaxFrame)
	if e := s.peers[p]; e != nil {
		for l := range e.links {
			if n := l.maxFrame.Load(); n > 0 {
				least = min(least, n)
			}
		}
	}
	return least
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
