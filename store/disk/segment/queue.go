package segment

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"allium/protocols/b3"
	"allium/store/meta"
)

// queue holds what waits for the writer. Puts append to the current objectBatch, other
// operations to the queued changes. The writer takes both and settles their tickets while
// the next ones fill.
//
// Changes that could not be written are dropped, and their callers get the error. After a
// failed sync the content of the disk is unknown: the sync is never repeated and the queue
// refuses everything.
type queue struct {
	wakeWriter chan struct{}

	mu      sync.Mutex // lock: metadata
	objects objectQueue
	changes changeQueue
	failed  error // refuses everything; set once

	uncertain atomic.Pointer[map[b3.Root]struct{}] // removals of the batch whose outcome is unknown
}

func newQueue(o Options) *queue {
	return &queue{
		objects: objectQueue{
			totals: o.Totals, budget: o.ObjectBudget, maxBatch: o.MaxBatch, current: newObjectBatch(),
		},
		changes:    changeQueue{budget: o.ChangeBudget, maxBytes: int64(o.MaxBatch / 2), current: newChangeBatch()},
		wakeWriter: make(chan struct{}, 1), // one pending signal is enough
	}
}

// ticket lets callers wait for the outcome of a batch.
type ticket struct {
	done chan struct{} // closed when err is set
	err  error
}

func newTicket() *ticket { return &ticket{done: make(chan struct{})} }

// Put stores p, a small object that hashes to root and is not in the index. Unless deferred
// is set, it waits for the commit or for ctx. It waits for space in the batch in both
// cases. isNew is false when another put of root is in progress. counted is called after
// the object is added to the totals.
func (q *queue) Put(
	ctx context.Context, root b3.Root, p []byte, deferred bool, counted func(),
) (isNew bool, err error) {
	for {
		q.mu.Lock()
		a := appended{err: q.failed}
		if a.err == nil {
			a = q.objects.add(root, p, deferred)
		}
		q.mu.Unlock()
		if a.isNew {
			counted()
		}
		if a.wakeWriter {
			signal(q.wakeWriter)
		}
		if a.err != nil || a.wait == nil {
			return a.isNew, a.err
		}
		if err := awaitTicket(ctx, a.wait); err != nil || !a.retry {
			return a.isNew, err
		}
	}
}

// submit has the writer commit changes and waits until they are durable. It has no context,
// as the caller must learn the outcome. Afterwards change.applied says which changes had an
// effect. The changes must fit one batch: at most maxBatch/2 bytes and maxChanges.
func (q *queue) submit(cs ...*change) error { return q.commit(cs, q.changes.add) }

// submitMoves is submit for the compactor. The writer alternates between its changes and
// all others.
func (q *queue) submitMoves(cs []*change) error { return q.commit(cs, q.changes.addMoves) }

// commit queues cs with add until they fit, and waits until they are durable.
func (q *queue) commit(cs []*change, add func([]*change) (t *ticket, retry bool, err error)) error {
	for {
		q.mu.Lock()
		t, retry, err := (*ticket)(nil), false, q.failed
		if err == nil {
			t, retry, err = add(cs)
		}
		q.mu.Unlock()
		if err != nil {
			return err
		}
		signal(q.wakeWriter)
		if <-t.done; !retry {
			return t.err
		}
	}
}

func awaitTicket(ctx context.Context, t *ticket) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal sends to ch, a channel with a buffer of one, unless a signal is pending.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Flush waits until every object that was appended before is committed, or ctx is done.
func (q *queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	t, err := q.objects.lastTicket(), q.failed
	q.mu.Unlock()
	if t == nil || err != nil {
		return err
	}
	signal(q.wakeWriter)
	return awaitTicket(ctx, t)
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
	for _, t := range q.fail(err) {
		close(t.done)
	}
}

// fail makes the queue refuse everything with err. It returns the tickets of what waits, to
// be closed. The caller holds mu.
func (q *queue) fail(err error) []*ticket {
	q.failed = err
	waiting := append(q.changes.drop(), q.objects.current.ticket)
	for _, t := range waiting {
		t.err = err
	}
	return waiting
}

// UncertainRemoval returns the error that ended the log if the removal of root was in the
// batch whose outcome is unknown: the next start may find root removed. Otherwise it
// returns nil.
func (q *queue) UncertainRemoval(root b3.Root) error {
	if roots := q.uncertain.Load(); roots != nil {
		if _, ok := (*roots)[root]; ok {
			return q.Failure()
		}
	}
	return nil
}

// refuseChanges makes the queue refuse changes, as the writer returns.
func (q *queue) refuseChanges() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes.closed = true
	if q.failed == nil { // otherwise finishBatch settled it
		t := q.changes.current.ticket
		t.err = meta.ErrDraining
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
	ready := q.objects.ready(last)
	changes, moves := q.changes.take(ready)
	if f.changes = changes; ready && !moves {
		f.objects = q.objects.take()
	}
	return f, f.objects != nil || f.changes != nil
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
	if c := f.changes; c != nil {
		q.changes.budget.Release(c.bytes)
		c.ticket.err = err
		tickets = append(tickets, c.ticket)
	}
	if f.objects != nil {
		tickets = append(tickets, q.objects.finish(f.objects, refused, final))
	}
	if final {
		tickets = append(tickets, q.fail(err)...)
		roots := f.changes.removals()
		q.uncertain.Store(&roots)
	}
	q.mu.Unlock()
	for _, t := range tickets {
		close(t.done)
	}
}
