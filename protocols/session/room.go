package session

import (
	"cmp"
	"slices"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// makeRoom frees some of b by dropping what has waited longest to be written to
// the peer, for somebody who needs n of it; false: nothing may be dropped. A
// call that is dropped is told busy; an answer keeps its place and becomes
// busy, so that whoever asked learns it. What is being written, HELLO, ACK and
// GOAWAY stay.
func (s *Service) makeRoom(e *peerEntry, b *limits.Budget, n int64) bool {
	for {
		var oldest *link
		least := uint64(0)
		for _, l := range s.linksWith(e) {
			if age, ok := l.oldest(b); ok && (oldest == nil || age < least) {
				oldest, least = l, age
			}
		}
		if oldest == nil {
			return false
		}
		if oldest.drop(b, n) {
			return true
		} // else the writer was faster
	}
}

// outweigh frees some of the bytes of all peers, for n that e has been granted of
// its own, by dropping what has waited longest for the peer that holds most of
// them and more than e with the n; false: nobody does, or nothing may be dropped.
// So peers that take little of what they ask for hurt each other first.
func (s *Service) outweigh(e *peerEntry, n int64) bool {
	type holder struct {
		e    *peerEntry
		used int64
	}
	var more []holder
	least := max(e.permits.bytes.Used(), int64(s.cfg.EgressBytes)/maxHolders)
	s.mu.Lock()
	for _, o := range s.peers {
		if used := o.permits.bytes.Used(); used > least {
			more = append(more, holder{o, used})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(more, func(a, b holder) int { return cmp.Compare(b.used, a.used) })
	for _, h := range more {
		if s.makeRoom(h.e, s.egress, n) {
			return true
		}
	}
	return false
}

// maxHolders bounds how many peers outweigh looks at: those that hold so little
// make no room.
const maxHolders = 1024

// linksWith lists the sessions with one peer.
func (s *Service) linksWith(e *peerEntry) []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make([]*link, 0, len(e.links))
	for l := range e.links {
		links = append(links, l)
	}
	return links
}

// oldest is the age of the first frame in the queue that frees some of b.
func (l *link) oldest(b *limits.Budget) (age uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, o := l.droppable(b); o != nil {
		return o.age, true
	}
	return 0, false
}

// droppable finds the first frame in the queue that frees some of b, and the
// one before it. The caller holds l.mu.
func (l *link) droppable(b *limits.Budget) (before, o *outgoing) {
	if !l.ready {
		return nil, nil
	}
	for o = l.egress.first; o != nil; before, o = o, o.next {
		var frees bool
		call := l.opened && o.frame.Flags.Has(oap.FlagReq) && l.flight[o.frame.CorrID] != nil
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

// drop drops the first frame in the queue that frees some of b; false: there is
// none any more.
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
	x := l.flight[o.frame.CorrID]
	delete(l.flight, o.frame.CorrID)
	l.mu.Unlock()
	x.answer <- answer{err: busy} // there is room: who takes an exchange out of flight answers it, once
	l.forget(o, false)
	l.slots.Release(1)
	l.svc.inflight.done(1)
	return true
}
