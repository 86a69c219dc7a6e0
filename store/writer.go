package store

import (
	"context"
	"runtime"

	"allium/protocols/b3"
)

// flight is what the writer carries out at a time: objects, and changes or
// moves. Either may be missing.
type flight struct {
	objects *batch
	changes *changes
}

// serve is the writer. When ctx is done it commits what is left, and takes no
// more.
func (s *segments) serve(ctx context.Context) {
	defer s.end()
	for last := false; !last; {
		select {
		case <-s.kick:
		case <-ctx.Done():
			last = true
		}
		for f, ok := s.gather(last); ok; f, ok = s.gather(last) {
			refused, final, err := s.commit(f)
			s.settle(f, refused, final, err)
			if last && (err != nil || refused != nil) {
				break
			}
		}
	}
}

// end refuses what comes after the writer.
func (s *segments) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	t := s.queued.ticket
	t.err = ErrDraining
	if s.failed == nil { // else it is settled
		close(t.done)
	}
}

// gather lets the putters that were just woken append, so that they share a
// sync, and takes what is there.
func (s *segments) gather(last bool) (flight, bool) {
	runtime.Gosched()
	return s.take(last)
}

// take returns what it is time to write.
func (s *segments) take(last bool) (f flight, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return flight{}, false
	}
	b := s.current
	ripe := len(b.items) > 0 && (b.urgent || last || len(b.buf) >= s.most/2 && !s.stalled)
	if s.moves != nil && (s.turn || !ripe && len(s.queued.list) == 0) {
		f.changes, s.moves, s.turn = s.moves, nil, false
		s.aloft = f.changes
		return f, true
	}
	s.turn = true
	if ripe {
		f.objects = b
		s.flying, s.current, s.spare = b, s.spare, nil
		if s.current == nil {
			s.current = newBatch()
		}
	}
	if len(s.queued.list) > 0 {
		f.changes, s.queued = s.queued, newChanges()
		s.aloft = f.changes
	}
	return f, ripe || f.changes != nil
}

// settle ends a flight: refused is why its objects were left out, err why
// nothing of it was written.
func (s *segments) settle(f flight, refused error, final bool, err error) {
	if err != nil {
		refused = err
	}
	final = final && err != nil
	var tickets []*ticket
	s.mu.Lock()
	s.flying, s.aloft = nil, nil
	if c := f.changes; c != nil {
		s.orders.Release(c.bytes)
		c.ticket.err = err
		tickets = append(tickets, c.ticket)
	}
	if b := f.objects; b != nil {
		b.ticket.err = refused
		tickets = append(tickets, b.ticket)
		s.stalled = refused != nil
		if refused == nil {
			s.budget.Release(b.taken)
			s.count.settled(b.load)
			b.reset()
			s.spare = b
		} else if !final {
			b.absorb(s.current)
			s.current = b
		}
	}
	if final {
		s.failed = err
		s.doubted = f.changes.removals()
		s.doubts.Store(true)
		for _, t := range []*ticket{s.current.ticket, s.queued.ticket, s.moves.waiting()} {
			if t != nil {
				t.err = err
				tickets = append(tickets, t)
			}
		}
		s.moves = nil
	}
	s.mu.Unlock()
	for _, t := range tickets {
		close(t.done)
	}
}

// commit writes a flight, syncs it and enters it in the index. refused says
// that there was no space for the objects, while the changes were written. An
// error is final when it leaves unknown what is on disk.
func (s *segments) commit(f flight) (refused error, final bool, err error) {
	if b := f.objects; b != nil {
		if refused = s.space(int64(len(b.buf))); refused != nil {
			f.objects = nil
		}
	}
	n := f.size()
	if n > 0 {
		if final, err := s.roll(n); err != nil {
			return refused, final, err
		}
	}
	p, err := s.plan(f)
	defer s.clock.land()
	if err != nil {
		_ = p.b.Close() // of memory
		return refused, false, err
	}
	if final, err := s.write(p); err != nil {
		_ = p.b.Close()
		return refused, final, err
	}
	return refused, true, s.enter(p)
}

// direct carries out moves at once. It is for an open, before there is a writer.
func (s *segments) direct(cs []*change) error {
	_, _, err := s.commit(flight{changes: &changes{list: cs}})
	return err
}

// size is an upper bound of the bytes that f adds to the log.
func (f flight) size() (n int64) {
	if f.objects != nil {
		n = int64(len(f.objects.buf))
	}
	if f.changes != nil {
		for _, c := range f.changes.list {
			n += c.size()
		}
	}
	return n
}

// write appends what p made to the segment, durably.
func (s *segments) write(p *plan) (final bool, err error) {
	n := int64(len(p.buf) + len(p.objects))
	if n == 0 {
		return false, nil
	}
	at := s.log.end
	s.zeros.claim(at + n)
	for _, part := range [][]byte{p.buf, p.objects} {
		if len(part) == 0 {
			continue
		}
		if _, err := s.log.f.WriteAt(part, at); err != nil {
			return false, writeError("write a segment", err)
		}
		at += int64(len(part))
	}
	if err := s.log.f.SyncData(); err != nil {
		return true, writeError("sync a segment", err)
	}
	s.log.end = at
	s.zeros.ahead(n, at)
	s.unsynced += n
	return false, nil
}

// enter makes what p wrote visible.
func (s *segments) enter(p *plan) error {
	if len(p.buf)+len(p.objects) > 0 {
		if err := p.b.Set(keyWatermark, encodePosition(position{s.log.num, s.log.end}), nil); err != nil {
			return err
		}
	}
	sync := s.unsynced >= indexSyncBytes
	if err := s.index.apply(p.b, sync); err != nil {
		return err
	}
	if sync {
		s.unsynced = 0
	}
	s.count.replace(p.before, p.after)
	if s.use.apply(p.deltas, s.log.end) {
		nudge(s.tidy)
	}
	for _, c := range p.done {
		if c.did = true; c.kind == sealTail { // alone in its flight
			s.seal()
		}
	}
	return nil
}

// removals are the roots that c would remove.
func (c *changes) removals() map[b3.Root]struct{} {
	roots := map[b3.Root]struct{}{}
	if c == nil {
		return roots
	}
	for _, x := range c.list {
		if x.kind == changeRemove {
			roots[x.e.root] = struct{}{}
		}
	}
	return roots
}

// waiting is the ticket of c, if there is one.
func (c *changes) waiting() *ticket {
	if c == nil {
		return nil
	}
	return c.ticket
}
