package segment

import (
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/meta"
)

// changeBatch is a list of changes that are committed together.
type changeBatch struct {
	list   []*change
	bytes  int64 // reserved in the budget
	ticket *ticket
}

func newChangeBatch() *changeBatch { return &changeBatch{ticket: newTicket()} }

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

// changeQueue holds the changes that wait for the writer. It alternates between those of
// the compactor and all others. The lock of the queue guards it.
type changeQueue struct {
	budget   *limits.Budget // bytes of changes
	maxBytes int64          // of a batch

	current   *changeBatch // being filled
	moves     *changeBatch // of the compactor; nil when there is none
	movesNext bool         // the writer takes the moves next
	closed    bool         // the writer has returned
}

// add adds cs to the current batch. When retry is set they did not fit, and the caller
// tries again after the ticket.
func (q *changeQueue) add(cs []*change) (t *ticket, retry bool, err error) {
	if q.closed {
		return nil, false, meta.ErrDraining
	}
	n := int64(0)
	for _, c := range cs {
		n += c.size()
	}
	b := q.current
	if len(b.list) > 0 && (b.bytes+n > q.maxBytes || len(b.list)+len(cs) > maxChanges) {
		return b.ticket, true, nil
	}
	if err := q.budget.TryAcquire(n); err != nil {
		return nil, false, err // impossible: two batches fit the budget
	}
	b.list = append(b.list, cs...)
	b.bytes += n
	return b.ticket, false, nil
}

// addMoves sets the moves of the compactor, which waits for the previous ones first.
func (q *changeQueue) addMoves(cs []*change) (t *ticket, retry bool, err error) {
	q.moves = &changeBatch{list: cs, ticket: newTicket()}
	return q.moves.ticket, false, nil
}

// take gives the moves or the current batch to the writer, nil when there is nothing to
// take. objects reports that there are objects for the writer, too. It does not take them
// with moves.
func (q *changeQueue) take(objects bool) (b *changeBatch, moves bool) {
	some := len(q.current.list) > 0
	if q.moves != nil && (q.movesNext || !objects && !some) {
		b, q.moves, q.movesNext = q.moves, nil, false
		return b, true
	}
	if q.movesNext = true; some {
		b, q.current = q.current, newChangeBatch()
	}
	return b, false
}

// drop forgets the moves, and returns their ticket and that of the current batch.
func (q *changeQueue) drop() []*ticket {
	tickets := []*ticket{q.current.ticket}
	if q.moves != nil {
		tickets = append(tickets, q.moves.ticket)
		q.moves = nil
	}
	return tickets
}
