package segment

import (
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/disk/segment/codec"
	"allium/store/meta"
)

// objectBatch collects small objects for one commit. The queue's lock guards it until the
// writer takes it.
type objectBatch struct {
	codec.Builder
	roots    map[b3.Root]struct{} // of the records
	reserved int64                // bytes reserved in the budget
	pending  meta.Count           // what the totals count as pending

	urgent bool    // a caller waits for ticket
	ticket *ticket // of this batch
}

func newObjectBatch() *objectBatch {
	return &objectBatch{roots: map[b3.Root]struct{}{}, ticket: newTicket()}
}

// add appends a record of the object p, which hashes to root.
func (b *objectBatch) add(root b3.Root, p []byte) {
	b.roots[root] = struct{}{}
	b.Object(meta.Entry{Root: root}, p)
}

func (b *objectBatch) has(root b3.Root) bool {
	_, ok := b.roots[root]
	return ok
}

// appendBatch adds the objects of later that b lacks, and takes over later's ticket.
func (b *objectBatch) appendBatch(later *objectBatch) {
	for _, r := range later.Records() {
		if !b.has(r.Root) {
			b.add(r.Root, later.Body(r))
		}
	}
	b.reserved += later.reserved
	b.pending.Objects += later.pending.Objects
	b.pending.Bytes += later.pending.Bytes
	b.urgent, b.ticket = later.urgent, later.ticket
}

// reset empties b for its next use and keeps the memory.
func (b *objectBatch) reset() {
	b.Reset()
	b.reserved, b.pending = 0, meta.Count{}
	clear(b.roots)
	b.urgent, b.ticket = false, newTicket()
}

// objectQueue holds the small objects that wait for the writer. The lock of the queue
// guards it.
//
// An object batch that could not be written is put in front of the next one. A deferred
// object is therefore lost only with the process, and a Flush after space was made
// succeeds.
type objectQueue struct {
	totals   *meta.Totals
	budget   *limits.Budget // bytes of objects
	maxBatch int            // largest batch in bytes: half a budget, as one fills and one is written

	current    *objectBatch // being filled
	committing *objectBatch // taken by the writer; nil when there is none
	spare      *objectBatch // memory for the next current
	stalled    bool         // the last batch with objects could not be written
}

// appended is the outcome of an attempt to add an object.
type appended struct {
	isNew      bool    // a record was added
	wakeWriter bool    // the writer must be woken
	wait       *ticket // of the batch to wait for; nil when the caller need not wait
	retry      bool    // the batch is full and nothing was added: try again after the wait
	err        error
}

// add adds a record to the current batch, unless root is in it or being committed.
func (q *objectQueue) add(root b3.Root, p []byte, deferred bool) (a appended) {
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
		if err := q.budget.TryAcquire(int64(n)); err != nil {
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

// lastTicket returns the ticket of the last batch that holds objects, nil for none. It
// makes the current batch urgent.
func (q *objectQueue) lastTicket() *ticket {
	switch {
	case q.current.Len() > 0:
		q.current.urgent = true
		return q.current.ticket
	case q.committing != nil:
		return q.committing.ticket
	}
	return nil
}

// ready reports whether the writer should take the current batch. last is set when it is
// about to return.
func (q *objectQueue) ready(last bool) bool {
	b := q.current
	return b.Len() > 0 && (b.urgent || last || b.Len() >= q.maxBatch/2 && !q.stalled)
}

// take gives the current batch to the writer.
func (q *objectQueue) take() *objectBatch {
	q.committing, q.current, q.spare = q.current, q.spare, nil
	if q.current == nil {
		q.current = newObjectBatch()
	}
	return q.committing
}

// finish ends the commit of b, which take returned, and returns the ticket to close. err is
// why the objects were not written. When final is set, they never will be.
func (q *objectQueue) finish(b *objectBatch, err error, final bool) *ticket {
	t := b.ticket
	t.err = err
	q.committing, q.stalled = nil, err != nil
	if err == nil {
		q.budget.Release(b.reserved)
		q.totals.Settle(b.pending)
		b.reset()
		q.spare = b
	} else if !final {
		b.appendBatch(q.current)
		q.current = b
	}
	return t
}
