package segment

import (
	"context"

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
		for f, ok := s.take(last); ok; f, ok = s.take(last) {
			refused, final, err := s.commit(f)
			s.settle(f, refused, final, err)
			if last && (err != nil || refused != nil) {
				break
			}
		}
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
