package segment

import (
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

// ticket lets callers wait for the outcome of a batch.
type ticket struct {
	done chan struct{} // closed when err is set
	err  error
}

func newTicket() *ticket { return &ticket{done: make(chan struct{})} }

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
