package segment

import (
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// batch is records on their way to a segment, headers still without epoch.
type batch struct {
	buf   []byte
	items []item
	at    map[b3.Root]struct{} // the roots of items
	taken int64                // bytes of the budget
	load  meta.Count           // that totals counts as pending

	urgent bool    // somebody waits for ticket
	ticket *ticket // of those who wait for this batch
}

// item is one record of a batch.
type item struct {
	root   b3.Root
	off    int // of the record in buf
	length int // of the body
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
	b.items = append(b.items, item{root: root, off: len(b.buf), length: len(p)})
	b.at[root] = struct{}{}
	b.buf = slices.Grow(b.buf, recordHeaderSize+len(p))
	b.buf = append(b.buf[:len(b.buf)+recordHeaderSize], p...)
}

func (b *batch) has(root b3.Root) bool {
	_, ok := b.at[root]
	return ok
}

// absorb appends what later holds and b does not, and takes over its ticket.
func (b *batch) absorb(later *batch) {
	for _, it := range later.items {
		if !b.has(it.root) {
			body := it.off + recordHeaderSize
			b.add(it.root, later.buf[body:body+it.length])
		}
	}
	b.taken += later.taken
	b.load.Objects += later.load.Objects
	b.load.Bytes += later.load.Bytes
	b.urgent, b.ticket = later.urgent, later.ticket
}

// seal fills in the headers, for offset at of a segment of that epoch.
func (b *batch) seal(epoch, number uint64, at int64, added meta.Second) {
	for _, it := range b.items {
		r := record{root: it.root, length: it.length, added: added, head: recordHeaderSize, number: number}
		r.left = int64(len(b.buf)-it.off) - r.size()
		putRecordHeader(b.buf[it.off:], epoch, at+int64(it.off), r)
	}
}

// reset empties b, keeping its memory, for the next use.
func (b *batch) reset() {
	b.buf, b.items, b.taken, b.load = b.buf[:0], b.items[:0], 0, meta.Count{}
	clear(b.at)
	b.urgent, b.ticket = false, newTicket()
}
