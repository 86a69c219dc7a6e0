package segment

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/disk/segment/codec"
	"allium/store/meta"
)

// queue holds what waits for the writer. Puts append to the current objectBatch, other
// operations to the queued changes. The writer takes both and settles their tickets while
// the next ones fill.
//
// An object batch that could not be written is put in front of the next one. A deferred
// object is therefore lost only with the process, and a Flush after space was made
// succeeds. Changes that could not be written are dropped, and their callers get the error.
// After a failed sync the content of the disk is unknown: the sync is never repeated and
// the queue refuses everything.
type queue struct {
	totals       *meta.Totals
	objectBudget *limits.Budget // bytes of objects
	maxBatch     int            // largest object batch in bytes: half a budget, as one fills and one is written
	changeBudget *limits.Budget // bytes of changes
	wakeWriter   chan struct{}

	mu             sync.Mutex           // lock: metadata
	current        *objectBatch         // being filled
	committing     *objectBatch         // taken by the writer; nil when there is none
	spareBatch     *objectBatch         // memory for the next current
	queuedChanges  *changeBatch         // being filled
	queuedMoves    *changeBatch         // of the compactor; nil when there is none
	movesNext      bool                 // the writer takes the moves next
	stalled        bool                 // the last batch with objects could not be written
	failed         error                // refuses everything; set once
	writerDone     bool                 // the writer has returned
	uncertainRoots map[b3.Root]struct{} // removals of the batch whose outcome is unknown
	anyUncertain   atomic.Bool          // uncertainRoots is set
}

func newQueue(o Options) *queue {
	return &queue{
		totals: o.Totals, objectBudget: o.ObjectBudget, maxBatch: o.MaxBatch, changeBudget: o.ChangeBudget,
		current: newObjectBatch(), queuedChanges: newChangeBatch(),
		wakeWriter: make(chan struct{}, 1), // one pending signal is enough
	}
}

// Put stores p, a small object that hashes to root and is not in the index. Unless deferred
// is set, it waits for the commit or for ctx. It waits for space in the batch in both
// cases. isNew is false when another put of root is in progress. counted is called after
// the object is added to the totals.
func (q *queue) Put(
	ctx context.Context, root b3.Root, p []byte, deferred bool, counted func(),
) (isNew bool, err error) {
	for {
		a := q.appendObject(root, p, deferred)
		if a.isNew {
			counted()
		}
		if a.wakeWriter {
			q.wake()
		}
		if a.err != nil || a.wait == nil {
			return a.isNew, a.err
		}
		if err := awaitTicket(ctx, a.wait); err != nil || !a.retry {
			return a.isNew, err
		}
	}
}

// appended is the outcome of appendObject.
type appended struct {
	isNew      bool    // a record was added
	wakeWriter bool    // the writer must be woken
	wait       *ticket // of the batch to wait for; nil when the caller need not wait
	retry      bool    // the batch is full and nothing was added: try again after the wait
	err        error
}

// appendObject adds a record to the current batch, unless root is in it or being committed.
func (q *queue) appendObject(root b3.Root, p []byte, deferred bool) (a appended) {
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
		n := codec.RecordHeaderSize + len(p)
		if b.Len()+n > q.maxBatch && b.Len() > 0 {
			b.urgent = true
			return appended{wait: b.ticket, retry: true, wakeWriter: true}
		}
		if err := q.objectBudget.TryAcquire(int64(n)); err != nil {
			if q.committing == nil {
				return appended{err: err} // impossible: two batches fit the budget
			}
			// The batch being committed grew when its first attempt failed.
			return appended{wait: q.committing.ticket, retry: true}
		}
		b.add(root, p)
		b.reserved += int64(n)
		b.pending.Add(int64(len(p)))
		q.totals.Pend(int64(len(p)))
		a.isNew = true
	}
	if !deferred || q.stalled {
		b.urgent = true
		a.wait = b.ticket
	}
	a.wakeWriter = b.urgent || b.Len() >= q.maxBatch/2
	return a
}

// submit has the writer commit changes and waits until they are durable. It has no context,
// as the caller must learn the outcome. Afterwards change.applied says which changes had an
// effect. The changes must fit one batch: at most maxBatch/2 bytes and maxChanges.
func (q *queue) submit(cs ...*change) error {
	for {
		t, retry, err := q.enqueue(cs)
		if err != nil {
			return err
		}
		q.wake()
		if <-t.done; !retry {
			return t.err
		}
	}
}

// enqueue adds cs to the queued changes. When retry is set they did not fit, and the caller
// tries again after the ticket.
func (q *queue) enqueue(cs []*change) (t *ticket, retry bool, err error) {
	n := int64(0)
	for _, c := range cs {
		n += c.size()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return nil, false, q.failed
	}
	if q.writerDone {
		return nil, false, meta.ErrDraining
	}
	c := q.queuedChanges
	if len(c.list) > 0 && (c.bytes+n > int64(q.maxBatch/2) || len(c.list)+len(cs) > maxChanges) {
		return c.ticket, true, nil
	}
	if err := q.changeBudget.TryAcquire(n); err != nil {
		return nil, false, err // impossible: two batches fit the budget
	}
	c.list = append(c.list, cs...)
	c.bytes += n
	return c.ticket, false, nil
}

// submitMoves is submit for the compactor. The writer alternates between its changes and
// all others.
func (q *queue) submitMoves(cs []*change) error {
	m := newChangeBatch()
	m.list = cs
	if err := q.enqueueMoves(m); err != nil {
		return err
	}
	q.wake()
	<-m.ticket.done
	return m.ticket.err
}

func (q *queue) enqueueMoves(m *changeBatch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		q.queuedMoves = m
	}
	return q.failed
}

func awaitTicket(ctx context.Context, t *ticket) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake makes the writer look at the queue.
func (q *queue) wake() { signal(q.wakeWriter) }

// signal sends to ch, a channel with a buffer of one, unless a signal is pending.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Flush waits until every object that was appended before is committed, or ctx is done.
func (q *queue) Flush(ctx context.Context) error {
	t, err := q.lastTicket()
	if t == nil {
		return err
	}
	q.wake()
	return awaitTicket(ctx, t)
}

// lastTicket returns the ticket of the last batch that holds objects, nil for none. It
// makes the current batch urgent.
func (q *queue) lastTicket() (*ticket, error) {
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

// Failure returns the error after which the log refuses every change, nil while it accepts
// them.
func (q *queue) Failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// Freeze makes the log refuse every change with err. It is called once, in place of Serve.
func (q *queue) Freeze(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = err
	for _, t := range []*ticket{q.current.ticket, q.queuedChanges.ticket} {
		t.err = err
		close(t.done)
	}
}

// UncertainRemoval returns the error that ended the log if the removal of root was in the
// batch whose outcome is unknown: the next start may find root removed. Otherwise it
// returns nil.
func (q *queue) UncertainRemoval(root b3.Root) error {
	if !q.anyUncertain.Load() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.uncertainRoots[root]; ok {
		return q.failed
	}
	return nil
}

// refuseChanges makes the queue refuse changes, as the writer returns.
func (q *queue) refuseChanges() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writerDone = true
	t := q.queuedChanges.ticket
	t.err = meta.ErrDraining
	if q.failed == nil { // otherwise finishBatch closed it
		close(t.done)
	}
}

// takeBatch returns what the writer commits next. It yields first, so that putters whose
// batch just finished append and share the sync. last is set once, when the writer is about
// to return.
func (q *queue) takeBatch(last bool) (f commitBatch, ok bool) {
	runtime.Gosched()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return commitBatch{}, false
	}
	b := q.current
	ready := b.Len() > 0 && (b.urgent || last || b.Len() >= q.maxBatch/2 && !q.stalled)
	if q.queuedMoves != nil && (q.movesNext || !ready && len(q.queuedChanges.list) == 0) {
		f.changes, q.queuedMoves, q.movesNext = q.queuedMoves, nil, false
		return f, true
	}
	q.movesNext = true
	if ready {
		f.objects = b
		q.committing, q.current, q.spareBatch = b, q.spareBatch, nil
		if q.current == nil {
			q.current = newObjectBatch()
		}
	}
	if len(q.queuedChanges.list) > 0 {
		f.changes, q.queuedChanges = q.queuedChanges, newChangeBatch()
	}
	return f, ready || f.changes != nil
}

// finishBatch settles the tickets of a batch. refused is why its objects were left out; err
// is why nothing of it took effect, and when final is set, its outcome is unknown.
func (q *queue) finishBatch(f commitBatch, refused error, final bool, err error) {
	if err != nil {
		refused = err
	}
	final = final && err != nil
	var tickets []*ticket
	q.mu.Lock()
	q.committing = nil
	if c := f.changes; c != nil {
		q.changeBudget.Release(c.bytes)
		c.ticket.err = err
		tickets = append(tickets, c.ticket)
	}
	if b := f.objects; b != nil {
		b.ticket.err = refused
		tickets = append(tickets, b.ticket)
		q.stalled = refused != nil
		if refused == nil {
			q.objectBudget.Release(b.reserved)
			q.totals.Settle(b.pending)
			b.reset()
			q.spareBatch = b
		} else if !final {
			b.appendBatch(q.current)
			q.current = b
		}
	}
	if final {
		q.failed = err
		q.uncertainRoots = f.changes.removals()
		q.anyUncertain.Store(true)
		for _, t := range []*ticket{q.current.ticket, q.queuedChanges.ticket, q.queuedMoves.ticketOrNil()} {
			if t != nil {
				t.err = err
				tickets = append(tickets, t)
			}
		}
		q.queuedMoves = nil
	}
	q.mu.Unlock()
	for _, t := range tickets {
		close(t.done)
	}
}

// removals returns the roots that c removes. c may be nil.
func (c *changeBatch) removals() map[b3.Root]struct{} {
	roots := map[b3.Root]struct{}{}
	if c == nil {
		return roots
	}
	for _, x := range c.list {
		if x.kind == changeRemove {
			roots[x.entry.Root] = struct{}{}
		}
	}
	return roots
}

// ticketOrNil returns the ticket of c, and nil for a nil c.
func (c *changeBatch) ticketOrNil() *ticket {
	if c == nil {
		return nil
	}
	return c.ticket
}
