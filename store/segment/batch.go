package segment

import (
	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/segment/record"
)

// batch is small objects on their way to a segment.
type batch struct {
	record.Builder
	at    map[b3.Root]struct{} // the roots of the records
	taken int64                // bytes of the budget
	load  meta.Count           // that totals counts as pending

	urgent bool    // somebody waits for ticket
	ticket *ticket // of those who wait for this batch
}

// ticket tells those who wait for a batch how it went.
type ticket struct {
	done chan struct{} // closed when err is set
	err  error
}

func newTicket() *ticket { return &ticket{done: make(chan struct{})} }

func newBatch() *batch { return &batch{at: map[b3.Root]struct{}{}, ticket: newTicket()} }

// add appends a record for p, which hashes to root.
func (b *batch) add(root b3.Root, p []byte) {
	b.at[root] = struct{}{}
	b.Object(meta.Entry{Root: root}, p)
}

func (b *batch) has(root b3.Root) bool {
	_, ok := b.at[root]
	return ok
}

// absorb appends what later holds and b does not, and takes over its ticket.
func (b *batch) absorb(later *batch) {
	for _, r := range later.Records() {
		if !b.has(r.Root) {
			b.add(r.Root, later.Body(r))
		}
	}
	b.taken += later.taken
	b.load.Objects += later.load.Objects
	b.load.Bytes += later.load.Bytes
	b.urgent, b.ticket = later.urgent, later.ticket
}

// reset empties b, keeping its memory, for the next use.
func (b *batch) reset() {
	b.Reset()
	b.taken, b.load = 0, meta.Count{}
	clear(b.at)
	b.urgent, b.ticket = false, newTicket()
}
