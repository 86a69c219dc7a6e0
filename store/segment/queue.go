package segment

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/segment/record"
)

// queue is what waits for the writer. Any number of puts append to the current
// batch, other operations to the queued changes; the writer takes both and settles
// their tickets, while the next ones gather.
//
// A batch that could not be written goes back in front of the next one, so that
// a deferred object is lost only with the process, and a flush after space was
// made succeeds. Changes that could not be written are dropped: the caller was
// told. A failed sync is different: what is on disk is unknown, so it is never
// tried again and the queue takes no more.
type queue struct {
	count  *meta.Totals
	budget *limits.Budget // bytes of batches
	most   int            // bytes of a batch; half the budget, as one fills while one is written
	orders *limits.Budget // bytes of changes
	kick   chan struct{}  // tells the writer to look

	mu             sync.Mutex
	current        *batch               // being filled
	committing     *batch               // with the writer, nil when there is none
	spare          *batch               // memory for the next one
	queued         *changes             // being filled
	moves          *changes             // of the compactor, waiting for their turn
	turn           bool                 // the moves are next
	stalled        bool                 // the last batch could not be written
	failed         error                // sticky
	ended          bool                 // there is no writer any more
	uncertainRoots map[b3.Root]struct{} // roots of removals in what failed
	isUncertain    atomic.Bool          // it failed: look at uncertainRoots
}

func newQueue(o Options) *queue {
	return &queue{
		count: o.Totals, budget: o.Batches, most: o.Batch, orders: o.Changes,
		current: newBatch(), queued: newChanges(), kick: make(chan struct{}, 1), // bound: one kick
	}
}

// Put appends p, which hashes to root and is not in the index, and waits for
// the commit unless deferred. isNew is false when somebody else's put of it is
// under way.
func (q *queue) Put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error) {
	for {
		a := q.append(root, p, deferred)
		if a.isNew {
			counted()
		}
		if a.ready {
			q.wake()
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
func (q *queue) append(root b3.Root, p []byte, deferred bool) (a appended) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return appended{err: q.failed}
	}
	if b := q.committing; b != nil && b.has(root) {
		if !deferred {
			a.wait = b.ticket
		}
		return a
	}
	b := q.current
	if !b.has(root) {
		n := record.HeadSize + len(p)
		if b.Len()+n > q.most && b.Len() > 0 {
			b.urgent = true
			return appended{wait: b.ticket, full: true, ready: true}
		}
		if err := q.budget.TryAcquire(int64(n)); err != nil {
			if q.committing == nil {
				return appended{err: err} // cannot be: two batches fill the budget
			}
			return appended{wait: q.committing.ticket, full: true} // it had to be tried twice, and grew
		}
		b.add(root, p)
		b.taken += int64(n)
		b.load.Add(int64(len(p)))
		q.count.Pend(int64(len(p)))
		a.isNew = true
	}
	if !deferred || q.stalled {
		b.urgent = true
		a.wait = b.ticket
	}
	a.ready = b.urgent || b.Len() >= q.most/2
	return a
}

// do has the writer carry out changes, in one batch of at most most/2 bytes,
// and waits until they are durable. What they did is in them. It cannot be
// given up: who asks needs to know how it went.
func (q *queue) do(cs ...*change) error {
	for {
		t, full, err := q.order(cs)
		if err != nil {
			return err
		}
		q.wake()
		if <-t.done; !full {
			return t.err
		}
	}
}

// order adds cs to the queued changes; full says that there is no room, and to
// come back after the ticket.
func (q *queue) order(cs []*change) (t *ticket, full bool, err error) {
	n := int64(0)
	for _, c := range cs {
		n += c.size()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return nil, false, q.failed
	}
	if q.ended {
		return nil, false, meta.ErrDraining
	}
	c := q.queued
	if len(c.list) > 0 && (c.bytes+n > int64(q.most/2) || len(c.list)+len(cs) > maxChanges) {
		return c.ticket, true, nil
	}
	if err := q.orders.TryAcquire(n); err != nil {
		return nil, false, err // cannot be: two batches fill the budget
	}
	c.list = append(c.list, cs...)
	c.bytes += n
	return c.ticket, false, nil
}

// move is do for the compactor, whose changes take turns with everybody's.
func (q *queue) move(cs []*change) error {
	m := newChanges()
	m.list = cs
	if err := q.queueMoves(m); err != nil {
		return err
	}
	q.wake()
	<-m.ticket.done
	return m.ticket.err
}

func (q *queue) queueMoves(m *changes) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		q.moves = m
	}
	return q.failed
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
func (q *queue) wake() { nudge(q.kick) }

func nudge(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// Flush waits until every object that was appended before is committed.
func (q *queue) Flush(ctx context.Context) error {
	t, err := q.latest()
	if t == nil {
		return err
	}
	q.wake()
	return await(ctx, t)
}

// latest returns the ticket of the last batch that holds anything, nil for
// none.
func (q *queue) latest() (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.failed != nil:
		return nil, q.failed
	case q.current.Len() > 0:
		q.current.urgent = true
		return q.current.ticket, nil
	case q.committing != nil:
		return q.committing.ticket, nil
	}
	return nil, nil
}

// Failure is the sticky error of the log.
func (q *queue) Failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// Freeze makes the log take nothing more.
func (q *queue) Freeze(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = err
	for _, t := range []*ticket{q.current.ticket, q.queued.ticket} {
		t.err = err
		close(t.done)
	}
}

// Uncertain returns the error that ended the log when it leaves unknown whether
// root was removed: the next start may find that it was.
func (q *queue) Uncertain(root b3.Root) error {
	if !q.isUncertain.Load() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.uncertainRoots[root]; ok {
		return q.failed
	}
	return nil
}

// refuse settles what comes after the writer.
func (q *queue) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	t := q.queued.ticket
	t.err = meta.ErrDraining
	if q.failed == nil { // else it is settled
		close(t.done)
	}
}

// take returns what it is time to write. The putters that were just woken append
// first, so that they share a sync.
func (q *queue) take(last bool) (f commitBatch, ok bool) {
	runtime.Gosched()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return commitBatch{}, false
	}
	b := q.current
	ready := b.Len() > 0 && (b.urgent || last || b.Len() >= q.most/2 && !q.stalled)
	if q.moves != nil && (q.turn || !ready && len(q.queued.list) == 0) {
		f.changes, q.moves, q.turn = q.moves, nil, false
		return f, true
	}
	q.turn = true
	if ready {
		f.objects = b
		q.committing, q.current, q.spare = b, q.spare, nil
		if q.current == nil {
			q.current = newBatch()
		}
	}
	if len(q.queued.list) > 0 {
		f.changes, q.queued = q.queued, newChanges()
	}
	return f, ready || f.changes != nil
}

// settle ends a commit batch: refused is why its objects were left out, err why
// nothing of it was written.
func (q *queue) settle(f commitBatch, refused error, final bool, err error) {
	if err != nil {
		refused = err
	}
	final = final && err != nil
	var tickets []*ticket
	q.mu.Lock()
	q.committing = nil
	if c := f.changes; c != nil {
		q.orders.Release(c.bytes)
		c.ticket.err = err
		tickets = append(tickets, c.ticket)
	}
	if b := f.objects; b != nil {
		b.ticket.err = refused
		tickets = append(tickets, b.ticket)
		q.stalled = refused != nil
		if refused == nil {
			q.budget.Release(b.taken)
			q.count.Settle(b.load)
			b.reset()
			q.spare = b
		} else if !final {
			b.absorb(q.current)
			q.current = b
		}
	}
	if final {
		q.failed = err
		q.uncertainRoots = f.changes.removals()
		q.isUncertain.Store(true)
		for _, t := range []*ticket{q.current.ticket, q.queued.ticket, q.moves.waiting()} {
			if t != nil {
				t.err = err
				tickets = append(tickets, t)
			}
		}
		q.moves = nil
	}
	q.mu.Unlock()
	for _, t := range tickets {
		close(t.done)
	}
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
