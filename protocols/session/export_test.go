package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"allium/protocols/oap"
)

// Entries is how many peers the service has something for.
func (s *Service) Entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// State describes everything in the service that decides how it goes on, but
// for its lanes and for time.
func (s *Service) State() string {
	var b strings.Builder
	fmt.Fprintf(&b, "running %t draining %t inflight %d ingress %d egress %d\n",
		s.isRunning(), s.inflight.Closed(), s.inflight.Inside(), s.ingress.Len(), s.egress.Used())
	links := s.links()
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.peer.id, b.peer.id) })
	for _, l := range links {
		l.mu.Lock()
		fmt.Fprintf(&b, "%s: permits %d bytes %d ended %t shut %t owed %d flight %v writer %d queued",
			string(l.peer.id),
			l.peer.permits.frames.Used(),
			l.peer.permits.bytes.Used(), l.ended.Load(), l.shut, l.unanswered, slices.Sorted(maps.Keys(l.requests)),
			l.egress.writer)
		for o := l.egress.first; o != nil; o = o.next {
			fmt.Fprintf(&b, " %s %d:%d", o.frame.Flags&(oap.FlagEvent|oap.FlagResp), o.frame.CorrID, o.frame.Code)
		}
		b.WriteByte('\n')
		l.mu.Unlock()
	}
	return b.String()
}

func (s *Service) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running != nil
}

// Waiting is how many requests wait for a worker.
func (s *Service) Waiting() int { return s.ingress.Len() }

// Flight lists the requests of peers that are in flight, as peer and corr_id, "ann1".
func (s *Service) Flight() []string {
	var all []string
	for _, l := range s.links() {
		l.mu.Lock()
		for corr := range l.requests {
			all = append(all, fmt.Sprint(string(l.peer.id), corr))
		}
		l.mu.Unlock()
	}
	slices.Sort(all)
	return all
}

// Unrate takes the rates of the peers away, so that the reader of the next
// request panics.
func (s *Service) Unrate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.peers {
		e.rate = nil
	}
}
