package store

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/admission"
	"allium/protocols/b3"
)

// segments is the log of everything that happened to the store, and holds the
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
type segments struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger
	clock  *clock
	index  *index
	count  *totals
	space  func(need int64) error // no_space when the disk is about to be full
	budget *admission.Budget      // bytes of batches
	most   int                    // bytes of a batch; half the budget, as one fills while one is written
	orders *admission.Budget      // bytes of changes
	size   int64                  // at which a segment is closed
	cloud  *cloud                 // where the bytes of large objects are, or nil

	mu      sync.Mutex
	current *batch               // being filled
	flying  *batch               // with the writer, nil when there is none
	spare   *batch               // memory for the next one
	queued  *changes             // being filled
	aloft   *changes             // with the writer, nil when there are none
	moves   *changes             // of the compactor, waiting for their turn
	turn    bool                 // the moves are next
	stalled bool                 // the last batch could not be written
	failed  error                // sticky
	ended   bool                 // there is no writer any more
	doubted map[b3.Root]struct{} // roots of removals in what failed
	doubts  atomic.Bool          // it failed: look at doubted
	kick    chan struct{}        // tells the writer to look

	use   usage
	files handles
	room  spares
	tidy  chan struct{} // tells the compactor to look

	// The writer's own.
	log      tail
	nextSeg  uint64
	unsynced int64 // bytes of segments since the index was last synced
	scratch  []byte
	zeros    zeroer
}

// indexSyncBytes bounds what a crash makes us replay.
const indexSyncBytes = 64 << 20

// put appends p, which hashes to root and is not in the index, and waits for
// the commit unless deferred. isNew is false when somebody else's put of it is
// under way.
func (s *segments) put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error) {
	for {
		a := s.append(root, p, deferred)
		if a.isNew {
			counted()
		}
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
		b.load.add(int64(len(p)))
		s.count.pend(int64(len(p)))
		a.isNew = true
	}
	if !deferred || s.stalled {
		b.urgent = true
		a.wait = b.ticket
	}
	a.ripe = b.urgent || len(b.buf) >= s.most/2
	return a
}

// do has the writer carry out changes, in one batch of at most most/2 bytes,
// and waits until they are durable. What they did is in them. It cannot be
// given up: who asks needs to know how it went.
func (s *segments) do(cs ...*change) error {
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
func (s *segments) order(cs []*change) (t *ticket, full bool, err error) {
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
		return nil, false, ErrDraining
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
func (s *segments) move(cs []*change) error {
	m := newChanges()
	m.list = cs
	if err := s.queueMoves(m); err != nil {
		return err
	}
	s.wake()
	<-m.ticket.done
	return m.ticket.err
}

func (s *segments) queueMoves(m *changes) error {
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
func (s *segments) wake() { nudge(s.kick) }

func nudge(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// flush waits until every object that was appended before is committed.
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

// doubt returns the sticky error when it leaves unknown whether root was
// removed: the next start may find that it was.
func (s *segments) doubt(root b3.Root) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.doubted[root]; ok {
		return s.failed
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
