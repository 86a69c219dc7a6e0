package segment

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"allium/store/segment/record"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/damage"
	"allium/store/index"
	"allium/store/meta"
)

// Log is the log of everything that happened to the store, and holds the
// bytes of small objects. Any number of puts append to the current batch, other
// operations to the current changes; one writer takes both, writes them, syncs
// the segment, enters them in the index and settles their tickets, while the
// next ones gather.
//
// A batch that could not be written goes back in front of the next one, so that
// a deferred object is lost only with the process, and a flush after space was
// made succeeds. Changes that could not be written are dropped: who asked was
// told. A failed sync is different: what is on disk is unknown, so it is never
// tried again and the log takes no more.
type Log struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger
	clock  *meta.Clock
	index  *index.Index
	count  *meta.Totals
	space  func(need int64) error // no_space when the disk is about to be full
	budget *limits.Budget         // bytes of batches
	most   int                    // bytes of a batch; half the budget, as one fills while one is written
	orders *limits.Budget         // bytes of changes
	size   int64                  // at which a segment is closed
	bucket Bucket                 // nil: large objects are files

	mu                sync.Mutex
	current           *batch               // being filled
	committing        *batch               // with the writer, nil when there is none
	spare             *batch               // memory for the next one
	queued            *changes             // being filled
	committingChanges *changes             // with the writer, nil when there are none
	moves             *changes             // of the compactor, waiting for their turn
	turn              bool                 // the moves are next
	stalled           bool                 // the last batch could not be written
	failed            error                // sticky
	ended             bool                 // there is no writer any more
	uncertainRoots    map[b3.Root]struct{} // roots of removals in what failed
	isUncertain       atomic.Bool          // it failed: look at uncertainRoots
	kick              chan struct{}        // tells the writer to look

	use   usage
	files handles
	room  spares
	tidy  chan struct{} // tells the compactor to look

	damage    *damage.List
	gone      uint64                  // the number of the last removal of a large object
	setAside  func(name string) error // moves a file to quarantine
	end       endFile                 // of the writer, but while the store opens
	recovered *atomic.Int64           // records that opening has read
	undone    []*change               // removals of what a crash cut, to be written before there is a writer
	hurt      numbers                 // segments of which the index needs what may be gone

	// The writer's own.
	log      tail
	before   index.Position // where the log ends while no segment is written
	number   uint64         // of the last batch
	nextSeg  uint64
	unsynced int64 // bytes of segments since the index was last synced
	scratch  record.Builder
	zeros    zeroer
}

// indexSyncBytes bounds what a crash makes us replay.
const indexSyncBytes = 64 << 20

// Put appends p, which hashes to root and is not in the index, and waits for
// the commit unless deferred. isNew is false when somebody else's put of it is
// under way.
func (s *Log) Put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error) {
	for {
		a := s.append(root, p, deferred)
		if a.isNew {
			counted()
		}
		if a.ready {
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
	ready bool    // the writer has something to do
	wait  *ticket // of the batch that decides, nil when nobody needs to wait
	full  bool    // nothing was added: come back after the wait
	err   error
}

// append adds a record to the current batch, unless it is on its way already.
func (s *Log) append(root b3.Root, p []byte, deferred bool) (a appended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return appended{err: s.failed}
	}
	if b := s.committing; b != nil && b.has(root) {
		if !deferred {
			a.wait = b.ticket
		}
		return a
	}
	b := s.current
	if !b.has(root) {
		n := record.HeadSize + len(p)
		if b.Len()+n > s.most && b.Len() > 0 {
			b.urgent = true
			return appended{wait: b.ticket, full: true, ready: true}
		}
		if err := s.budget.TryAcquire(int64(n)); err != nil {
			if s.committing == nil {
				return appended{err: err} // cannot be: two batches fill the budget
			}
			return appended{wait: s.committing.ticket, full: true} // it had to be tried twice, and grew
		}
		b.add(root, p)
		b.taken += int64(n)
		b.load.Add(int64(len(p)))
		s.count.Pend(int64(len(p)))
		a.isNew = true
	}
	if !deferred || s.stalled {
		b.urgent = true
		a.wait = b.ticket
	}
	a.ready = b.urgent || b.Len() >= s.most/2
	return a
}

// do has the writer carry out changes, in one batch of at most most/2 bytes,
// and waits until they are durable. What they did is in them. It cannot be
// given up: who asks needs to know how it went.
func (s *Log) do(cs ...*change) error {
	for {
		t, full, err := s.order(cs)
		if err != nil {
			return err
		}
		s.wake()
		if <-t.done; !full {
			return t.err
		}
	}
}

// order adds cs to the queued changes; full says that there is no room, and to
// come back after the ticket.
func (s *Log) order(cs []*change) (t *ticket, full bool, err error) {
	n := int64(0)
	for _, c := range cs {
		n += c.size()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil, false, s.failed
	}
	if s.ended {
		return nil, false, meta.ErrDraining
	}
	q := s.queued
	if len(q.list) > 0 && (q.bytes+n > int64(s.most/2) || len(q.list)+len(cs) > maxChanges) {
		return q.ticket, true, nil
	}
	if err := s.orders.TryAcquire(n); err != nil {
		return nil, false, err // cannot be: two batches fill the budget
	}
	q.list = append(q.list, cs...)
	q.bytes += n
	return q.ticket, false, nil
}

// move is do for the compactor, whose changes take turns with everybody's.
func (s *Log) move(cs []*change) error {
	m := newChanges()
	m.list = cs
	if err := s.queueMoves(m); err != nil {
		return err
	}
	s.wake()
	<-m.ticket.done
	return m.ticket.err
}

func (s *Log) queueMoves(m *changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.moves = m
	}
	return s.failed
}

func await(ctx context.Context, t *ticket) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake makes the writer look at what is queued.
func (s *Log) wake() { nudge(s.kick) }

func nudge(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// Flush waits until every object that was appended before is committed.
func (s *Log) Flush(ctx context.Context) error {
	t, err := s.latest()
	if t == nil {
		return err
	}
	s.wake()
	return await(ctx, t)
}

// latest returns the ticket of the last batch that holds anything, nil for
// none.
func (s *Log) latest() (*ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return nil, s.failed
	case s.current.Len() > 0:
		s.current.urgent = true
		return s.current.ticket, nil
	case s.committing != nil:
		return s.committing.ticket, nil
	}
	return nil, nil
}

// Failure is the sticky error of the log.
func (s *Log) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// numbers are segments that somebody has to look at.
type numbers struct {
	mu  sync.Mutex
	set map[uint64]struct{}
}

func (n *numbers) add(num uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[uint64]struct{}{}
	}
	n.set[num] = struct{}{}
}

// take empties n.
func (n *numbers) take() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	nums := slices.Sorted(maps.Keys(n.set))
	clear(n.set)
	return nums
}

// shed closes the segments that nobody reads right now, and returns how many.
func (h *handles) shed() int {
	h.mu.Lock()
	var idle []*handle
	for num, f := range h.open {
		if f.users.Load() == 1 { // the map's; get adds one under the lock
			delete(h.open, num)
			idle = append(idle, f)
		}
	}
	h.mu.Unlock()
	for _, f := range idle {
		f.release()
	}
	return len(idle)
}

// Freeze makes the log take nothing more.
func (s *Log) Freeze(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	for _, t := range []*ticket{s.current.ticket, s.queued.ticket} {
		t.err = err
		close(t.done)
	}
}

// noteGone notes in b that root's files are to be unlinked.
func (s *Log) noteGone(b *index.Batch, root b3.Root) error {
	s.gone++
	return b.SetGone(root, s.gone)
}
