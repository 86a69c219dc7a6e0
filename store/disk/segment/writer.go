package segment

import (
	"context"

	"allium/store/disk/tables"
	"allium/store/meta"
)

// commitBatch holds the objects and changes of one commit of the writer. Either may be nil.
type commitBatch struct {
	objects *objectBatch
	changes *changeBatch
}

// Serve is the writer: it commits queued changes until ctx is done. Then it commits the rest and refuses further
// changes. It runs once, in one goroutine.
func (s *Log) Serve(ctx context.Context) {
	defer s.refuseChanges()
	for last := false; !last; {
		select {
		case <-s.wakeWriter:
		case <-ctx.Done():
			last = true
		}
		for f, ok := s.takeBatch(last); ok; f, ok = s.takeBatch(last) {
			refused, final, err := s.commit(f)
			s.finishBatch(f, refused, final, err)
			if last && (err != nil || refused != nil) {
				break
			}
		}
	}
}

// commit writes a batch, syncs it and enters it in the index. refused is why the objects were left out when only they
// found no space. err is why nothing took effect; when final is set, the state of the disk is unknown.
func (s *Log) commit(f commitBatch) (refused error, final bool, err error) {
	if b := f.objects; b != nil {
		if refused = s.checkSpace(int64(b.Len())); refused != nil {
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
		p.indexBatch.Close()
		return refused, false, err
	}
	if final, err := s.write(p); err != nil {
		p.indexBatch.Close()
		return refused, final, err
	}
	return refused, true, s.enterIndex(p)
}

// commitDirectly commits changes while the store opens, before there is a writer.
func (s *Log) commitDirectly(cs []*change) error {
	_, _, err := s.commit(commitBatch{changes: &changeBatch{list: cs}})
	return err
}

// size returns an upper bound of the bytes that f adds to the log.
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

// write appends the records of p to the active segment and syncs it. final reports that the
// sync failed.
func (s *Log) write(p *plan) (final bool, err error) {
	// A batch number is used once, so the rest of a failed write is no part of a later batch.
	parts, n := p.seal(s.batchNumber + 1)
	if n == 0 {
		return false, nil
	}
	s.batchNumber++
	at := s.active.end
	s.zeros.claimForWriter(at + n)
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		if _, err := s.active.f.WriteAt(part, at); err != nil {
			return false, meta.WriteError("write a segment", err)
		}
		at += int64(len(part))
	}
	if err := s.active.f.SyncData(); err != nil {
		return true, meta.WriteError("sync a segment", err)
	}
	s.active.end = at
	s.zeros.noteCommit(n, at)
	s.tailFile.write(tables.Position{Seg: s.active.num, Off: at}, s.batchNumber)
	s.unsynced += n
	p.durable = true
	return false, nil
}

// enterIndex applies the index changes of p, the new watermark and the counters.
func (s *Log) enterIndex(p *plan) error {
	if p.durable {
		at := tables.Position{Seg: s.active.num, Off: s.active.end}
		if err := p.indexBatch.SetWatermark(at, s.batchNumber); err != nil {
			return err
		}
	}
	if p.listBytes > 0 || len(p.retired) > 0 {
		if err := p.indexBatch.SetSegments(s.usage.markRetired(p.retired)); err != nil {
			return err
		}
	}
	// The index on disk must always know the segments.
	sync := s.unsynced >= indexSyncBytes || p.listBytes > 0 || len(p.retired) > 0
	if err := p.indexBatch.Apply(sync); err != nil {
		return err
	}
	if sync {
		s.unsynced = 0
	}
	s.objects.totals.Replace(p.before, p.after)
	if s.usage.apply(p.deltas, s.active.end) {
		signal(s.wakeCompactor)
	}
	for _, c := range p.applied {
		c.applied = true
		if c.kind == sealActive { // the compactor submits it alone
			s.sealActive()
		}
	}
	return nil
}
