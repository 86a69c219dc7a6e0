package session

import (
	"cmp"
	"slices"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// dropOldest drops the oldest queued frame to the peer, to free some of the n that a caller needs from budget b. A
// dropped call gets busy. A dropped answer stays in the queue and becomes busy: the peer must learn of it. dropOldest
// does not drop HELLO, ACK, GOAWAY and frames that are being written. It returns false if there is nothing to drop.
func (s *Service) dropOldest(e *peerEntry, b *limits.Budget, n int64) bool {
	for {
		var oldest *link
		oldestAge := uint64(0)
		for _, l := range s.linksWith(e) {
			if age, ok := l.oldest(b); ok && (oldest == nil || age < oldestAge) {
				oldest, oldestAge = l, age
			}
		}
		if oldest == nil {
			return false
		}
		if oldest.drop(b, n) {
			return true
		} // else the writer sent the frame meanwhile
	}
}

// dropFromLargest frees bytes of the node's egress budget for n bytes of e, which are
// already charged to e's own budget. It drops the oldest frame of the peer that
// holds the most bytes, if that is more than e holds. It returns false if no peer
// holds more, or if there is nothing to drop. So peers that do not read their
// answers lose frames first.
func (s *Service) dropFromLargest(e *peerEntry, n int64) bool {
	type holder struct {
		e    *peerEntry
		used int64
	}
	var larger []holder
	threshold := max(e.permits.bytes.Used(), int64(s.cfg.Load().EgressBytes)/maxHolders)
	s.mu.Lock()
	for _, o := range s.peers {
		if used := o.permits.bytes.Used(); used > threshold {
			larger = append(larger, holder{o, used})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(larger, func(a, b holder) int { return cmp.Compare(b.used, a.used) })
	for _, h := range larger {
		if s.dropOldest(h.e, s.egress, n) {
			return true
		}
	}
	return false
}

// maxHolders is the most peers that dropFromLargest considers: only those with more than
// 1/maxHolders of the node's bytes.
const maxHolders = 1024

// linksWith returns the sessions with one peer.
func (s *Service) linksWith(e *peerEntry) []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make([]*link, 0, len(e.links))
	for l := range e.links {
		links = append(links, l)
	}
	return links
}

// oldest returns the age of the first frame in the queue that can be dropped to free
// some of b.
func (l *link) oldest(b *limits.Budget) (age uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, o := l.droppable(b); o != nil {
		return o.age, true
	}
	return 0, false
}

// droppable returns the first frame in the queue that can be dropped to free some of
// b, and the frame before it. The caller holds l.mu.
func (l *link) droppable(b *limits.Budget) (before, o *outgoing) {
	if !l.ready {
		return nil, nil
	}
	for o = l.egress.first; o != nil; before, o = o, o.next {
		var frees bool
		call := l.opened && o.frame.Flags.Has(oap.FlagReq) && l.requests[o.frame.CorrID] != nil
		switch b {
		case l.peer.permits.bytes, l.peer.permits.node:
			frees = o.charged > 0 && (call || o.frame.Flags.Has(oap.FlagResp))
		case l.peer.permits.frames, l.slots:
			frees = call
		}
		if frees {
			return before, o
		}
	}
	return nil, nil
}

// drop drops the first frame in the queue that frees some of b. It returns false if
// there is none.
func (l *link) drop(b *limits.Budget, n int64) bool {
	l.mu.Lock()
	before, o := l.droppable(b)
	if o == nil {
		l.mu.Unlock()
		return false
	}
	busy := b.Refuse(n)
	if o.frame.Flags.Has(oap.FlagResp) {
		freed := o.charged
		o.charged = 0
		o.frame.Flags &^= oap.FlagComp
		o.frame.Code, o.frame.Payload = oap.ErrorPayload(busy)
		l.mu.Unlock()
		l.peer.permits.node.Release(freed)
		l.peer.permits.bytes.Release(freed)
		return true
	}
	l.egress.remove(before, o)
	x := l.requests[o.frame.CorrID]
	delete(l.requests, o.frame.CorrID)
	l.mu.Unlock()
	x.answer <- answer{err: busy} // never blocks: only the goroutine that removed x from flight answers it
	l.releaseFrames(o, false)
	l.slots.Release(1)
	l.svc.inflight.Leave()
	return true
}
