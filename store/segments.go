package store

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/admission"
	"allium/protocols/b3"
)

// segments is the log of small objects. Any number of puts append to the
// current batch; one writer takes it, writes it, syncs the segment, enters it
// in the index and settles its ticket, while the next batch fills.
//
// A batch that could not be written goes back in front of the next one, so that
// a deferred object is lost only with the process, and a flush after space was
// made succeeds. A failed sync is different: what is on disk is unknown, so it
// is never tried again and the log takes no more.
type segments struct {
	fs     vfs.FS
	dir    string
	index  *index
	count  *totals
	space  func(need int64) error // no_space when the disk is about to be full
	budget *admission.Budget
	most   int   // bytes of a batch; half the budget, as one fills while one is written
	size   int64 // at which a segment is closed

	mu      sync.Mutex
	current *batch        // being filled
	flying  *batch        // with the writer, nil when there is none
	spare   *batch        // memory for the next one
	stalled bool          // the last batch could not be written
	failed  error         // sticky
	kick    chan struct{} // tells the writer to look

	// The writer's own.
	log      tail
	nextSeg  uint64
	unsynced int64 // bytes of segments since the index was last synced
	files    handles
	zeros    zeroer
}

// indexSyncBytes bounds what a crash makes us replay.
const indexSyncBytes = 64 << 20

// put appends p, which hashes to root and is not in the index, and waits for
// the commit unless deferred. isNew is false when somebody else's put of it is
// under way.
func (s *segments) put(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error) {
	for {
		a := s.append(root, p, deferred)
		if a.ripe {
			s.wake()
		}
		if a.err != nil || a.wait == nil {
			return a.isNew, a.err
		}
		if err := await(ctx, a.wait); err != nil || !a.full {
			return a.isNew, err
		}
	}
}

// appended is how an append went.
type appended struct {
	isNew bool    // a record was added
	ripe  bool    // the writer has something to do
	wait  *ticket // of the batch that decides, nil when nobody needs to wait
	full  bool    // nothing was added: come back after the wait
	err   error
}

// append adds a record to the current batch, unless it is on its way already.
func (s *segments) append(root b3.Root, p []byte, deferred bool) (a appended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return appended{err: s.failed}
	}
	if b := s.flying; b != nil && b.has(root) {
		if !deferred {
			a.wait = b.ticket
		}
		return a
	}
	b := s.current
	if !b.has(root) {
		n := recordHeaderSize + len(p)
		if len(b.buf)+n > s.most && len(b.items) > 0 {
			b.urgent = true
			return appended{wait: b.ticket, full: true, ripe: true}
		}
		if err := s.budget.TryAcquire(int64(n)); err != nil {
			if s.flying == nil {
				return appended{err: err} // cannot be: two batches fill the budget
			}
			return appended{wait: s.flying.ticket, full: true} // it had to be tried twice, and grew
		}
		b.add(root, p)
		b.taken += int64(n)
		a.isNew = true
	}
	if !deferred || s.stalled {
		b.urgent = true
		a.wait = b.ticket
	}
	a.ripe = b.urgent || len(b.buf) >= s.most/2
	return a
}

func await(ctx context.Context, t *ticket) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake makes the writer look at the current batch.
func (s *segments) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// flush waits until everything that was appended before is committed.
func (s *segments) flush(ctx context.Context) error {
	t, err := s.latest()
	if t == nil {
		return err
	}
	s.wake()
	return await(ctx, t)
}

// latest returns the ticket of the last batch that holds anything, nil for
// none.
func (s *segments) latest() (*ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return nil, s.failed
	case len(s.current.items) > 0:
		s.current.urgent = true
		return s.current.ticket, nil
	case s.flying != nil:
		return s.flying.ticket, nil
	}
	return nil, nil
}

// failure is the sticky error of the log.
func (s *segments) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// serve is the writer. When ctx is done it commits what is left.
func (s *segments) serve(ctx context.Context) {
	for last := false; !last; {
		select {
		case <-s.kick:
		case <-ctx.Done():
			last = true
		}
		for b := s.gather(last); b != nil; b = s.gather(last) {
			final, err := s.commit(b)
			s.settle(b, final, err)
			if last && err != nil {
				break
			}
		}
	}
}

// gather lets the putters that were just woken append, so that they share a
// sync, and takes the batch.
func (s *segments) gather(last bool) *batch {
	runtime.Gosched()
	return s.take(last)
}

// take returns the current batch when it is time to write it.
func (s *segments) take(last bool) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.current
	ripe := b.urgent || last || len(b.buf) >= s.most/2 && !s.stalled
	if len(b.items) == 0 || !ripe || s.failed != nil {
		return nil
	}
	s.flying, s.current, s.spare = b, s.spare, nil
	if s.current == nil {
		s.current = newBatch()
	}
	return b
}

// settle ends a batch's flight.
func (s *segments) settle(b *batch, final bool, err error) {
	t := b.ticket
	s.mu.Lock()
	s.flying = nil
	s.stalled = err != nil
	switch {
	case err == nil:
		s.budget.Release(b.taken)
		b.reset()
		s.spare = b
	case final:
		s.failed = err
		defer s.current.ticket.settle(err)
	default:
		b.absorb(s.current)
		s.current = b
	}
	s.mu.Unlock()
	t.settle(err)
}

// commit writes b, syncs it and enters it in the index. An error is final when
// it leaves unknown what is on disk.
func (s *segments) commit(b *batch) (final bool, err error) {
	n := int64(len(b.buf))
	if err := s.space(n); err != nil {
		return false, err
	}
	if final, err := s.roll(n); err != nil {
		return final, err
	}
	b.seal(s.log.num)
	at := s.log.end
	s.zeros.claim(at + n)
	if _, err := s.log.f.WriteAt(b.buf, at); err != nil {
		return false, writeError("write a segment", err)
	}
	if err := s.log.f.SyncData(); err != nil {
		return true, writeError("sync a segment", err)
	}
	s.log.end += n
	s.zeros.ahead(n, s.log.end)
	return true, s.enter(b, at)
}

// enter makes the records of b, written at offset at of the segment, visible.
func (s *segments) enter(b *batch, at int64) error {
	batch := s.index.db.NewBatch()
	var before, after []entry
	added := minuteOf(time.Now())
	for _, it := range b.items {
		old, ok, err := s.index.get(it.root)
		if err != nil {
			return err
		}
		if ok && !old.corrupt {
			continue // another batch had it; this record is garbage
		}
		if ok {
			before = append(before, old)
		}
		e := entry{root: it.root, size: int64(it.length), seg: s.log.num, off: at + int64(it.off) + recordHeaderSize, added: added}
		after = append(after, e)
		if err := setEntry(batch, e); err != nil {
			return err
		}
	}
	if err := batch.Set(keyWatermark, encodePosition(position{s.log.num, s.log.end}), nil); err != nil {
		return err
	}
	s.unsynced += int64(len(b.buf))
	sync := s.unsynced >= indexSyncBytes
	if err := s.index.apply(batch, sync); err != nil {
		return err
	}
	if sync {
		s.unsynced = 0
	}
	for _, e := range before {
		s.count.sub(e)
	}
	for _, e := range after {
		s.count.add(e)
	}
	return nil
}

// setEntry adds e to a batch of the index.
func setEntry(b *pebble.Batch, e entry) error {
	var key [1 + b3.Size]byte
	key[0] = keyObject
	copy(key[1:], e.root[:])
	var value [maxEntrySize]byte
	return b.Set(key[:], appendEntry(value[:0], e), nil)
}
