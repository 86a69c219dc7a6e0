package segment

import (
	"context"
	"runtime"

	"allium/protocols/b3"
	"allium/store/index"
	"allium/store/meta"
)

// commitBatch is what the writer carries out at a time: objects, and changes or
// moves. Either may be missing.
type commitBatch struct {
	objects *batch
	changes *changes
}

// Serve is the writer. When ctx is done it commits what is left, and takes no
// more.
func (s *Log) Serve(ctx context.Context) {
	defer s.refuse()
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

// refuse settles what comes after the writer.
func (s *Log) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	t := s.queued.ticket
	t.err = meta.ErrDraining
	if s.failed == nil { // else it is settled
		close(t.done)
	}
}

// gather lets the putters that were just woken append, so that they share a
// sync, and takes what is there.
func (s *Log) gather(last bool) (commitBatch, bool) {
	runtime.Gosched()
	return s.take(last)
}

// take returns what it is time to write.
func (s *Log) take(last bool) (f commitBatch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return commitBatch{}, false
	}
	b := s.current
	ready := b.Len() > 0 && (b.urgent || last || b.Len() >= s.most/2 && !s.stalled)
	if s.moves != nil && (s.turn || !ready && len(s.queued.list) == 0) {
		f.changes, s.moves, s.turn = s.moves, nil, false
		s.committingChanges = f.changes
		return f, true
	}
	s.turn = true
	if ready {
		f.objects = b
		s.committing, s.current, s.spare = b, s.spare, nil
		if s.current == nil {
			s.current = newBatch()
		}
	}
	if len(s.queued.list) > 0 {
		f.changes, s.queued = s.queued, newChanges()
		s.committingChanges = f.changes
	}
	return f, ready || f.changes != nil
}

// settle ends a commit batch: refused is why its objects were left out, err why
// nothing of it was written.
func (s *Log) settle(f commitBatch, refused error, final bool, err error) {
	if err != nil {
		refused = err
	}
	final = final && err != nil
	var tickets []*ticket
	s.mu.Lock()
	s.committing, s.committingChanges = nil, nil
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
			s.count.Settle(b.load)
			b.reset()
			s.spare = b
		} else if !final {
			b.absorb(s.current)
			s.current = b
		}
	}
	if final {
		s.failed = err
		s.uncertainRoots = f.changes.removals()
		s.isUncertain.Store(true)
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

// commit writes a commit batch, syncs it and enters it in the index. refused says
// that there was no space for the objects, while the changes were written. An
// error is final when it leaves unknown what is on disk.
func (s *Log) commit(f commitBatch) (refused error, final bool, err error) {
	if b := f.objects; b != nil {
		if refused = s.space(int64(b.Len())); refused != nil {
			f.objects = nil
		}
	}
	n := f.size()
	if n > 0 {
		if err := s.index.Writable(); err != nil {
			return refused, false, err
		}
		if final, err := s.roll(n); err != nil {
			return refused, final, err
		}
	}
	p, err := s.plan(f)
	defer s.clock.EndCommit()
	if err != nil {
		p.b.Close()
		return refused, false, err
	}
	if final, err := s.write(p); err != nil {
		p.b.Close()
		return refused, final, err
	}
	return refused, true, s.enter(p)
}

// direct carries out moves at once. It is for an open, before there is a writer.
func (s *Log) direct(cs []*change) error {
	_, _, err := s.commit(commitBatch{changes: &changes{list: cs}})
	return err
}

// size is an upper bound of the bytes that f adds to the log.
func (f commitBatch) size() (n int64) {
	if f.objects != nil {
		n = int64(f.objects.Len())
	}
	if f.changes != nil {
		for _, c := range f.changes.list {
			n += c.size()
		}
	}
	return n
}

// write appends what p made to the segment, durably.
func (s *Log) write(p *plan) (final bool, err error) {
	// A number is used once: what a failed write left is not of the next batch.
	parts, n := p.seal(s.number + 1)
	if n == 0 {
		return false, nil
	}
	s.number++
	at := s.log.end
	s.zeros.claim(at + n)
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		if _, err := s.log.f.WriteAt(part, at); err != nil {
			return false, meta.WriteError("write a segment", err)
		}
		at += int64(len(part))
	}
	if err := s.log.f.SyncData(); err != nil {
		return true, meta.WriteError("sync a segment", err)
	}
	s.log.end = at
	s.zeros.ahead(n, at)
	s.end.note(index.Position{Seg: s.log.num, Off: at}, s.number)
	s.unsynced += n
	p.wrote = true
	return false, nil
}

// enter makes what p wrote visible.
func (s *Log) enter(p *plan) error {
	if p.wrote {
		if err := p.b.SetWatermark(index.Position{Seg: s.log.num, Off: s.log.end}, s.number); err != nil {
			return err
		}
	}
	if p.listed > 0 || len(p.retired) > 0 {
		if err := p.b.SetSegments(s.use.retiring(p.retired)); err != nil {
			return err
		}
	}
	sync := s.unsynced >= indexSyncBytes || p.listed > 0 || len(p.retired) > 0 // so that the index always knows the segments
	if err := p.b.Apply(sync); err != nil {
		return err
	}
	if sync {
		s.unsynced = 0
	}
	s.count.Replace(p.before, p.after)
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
			roots[x.e.Root] = struct{}{}
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
