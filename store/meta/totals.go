package meta

import (
	"sync/atomic"

	"allium/protocols/b3"
)

// Totals counts visible objects. The embedded backend writes them down when it
// closes, and counts its index when it opens after anything else.
type Totals struct {
	Objects, Bytes, Corrupt   atomic.Int64
	LargeBytes, OutboardBytes atomic.Int64 // bytes of large objects, and of their outboards

	PendingObjects, PendingBytes atomic.Int64 // small ones on their way to a segment, not visible yet
}

// Counters returns what an orderly close writes down, in the order in which it
// is written.
func (t *Totals) Counters() [5]*atomic.Int64 {
	return [...]*atomic.Int64{&t.Objects, &t.Bytes, &t.Corrupt, &t.LargeBytes, &t.OutboardBytes}
}

// Clear sets the written counters to zero.
func (t *Totals) Clear() {
	for _, c := range t.Counters() {
		c.Store(0)
	}
}

// Add counts e in.
func (t *Totals) Add(e Entry) { t.Replace(nil, []Entry{e}) }

// Sub counts e out.
func (t *Totals) Sub(e Entry) { t.Replace([]Entry{e}, nil) }

// Replace counts before out and after in. Each counter goes from the old sum to
// the new one at once: what was only moved is never missing from it.
func (t *Totals) Replace(before, after []Entry) {
	var by [5]int64
	for _, e := range before {
		e.count(&by, -1)
	}
	for _, e := range after {
		e.count(&by, 1)
	}
	for i, c := range t.Counters() {
		if by[i] != 0 {
			c.Add(by[i])
		}
	}
}

// count adds e to the sums of counters, times n.
func (e Entry) count(sums *[5]int64, n int64) {
	sums[0] += n
	sums[1] += n * e.Size
	if e.Corrupt {
		sums[2] += n
	}
	if !Small(e.Size) {
		sums[3] += n * e.Size
		sums[4] += n * b3.OutboardSize(e.Size)
	}
}

// Pend counts a small object that is on its way in.
func (t *Totals) Pend(size int64) {
	t.PendingObjects.Add(1)
	t.PendingBytes.Add(size)
}

// Settle ends the count of objects that were on their way in: they are visible,
// or not needed.
func (t *Totals) Settle(n Count) {
	t.PendingObjects.Add(-n.Objects)
	t.PendingBytes.Add(-n.Bytes)
}

// Count is a number of objects and their bytes, outboards included.
type Count struct{ Objects, Bytes int64 }

// Add counts one more object of that many bytes.
func (c *Count) Add(bytes int64) { c.Objects++; c.Bytes += bytes }

// Plus is the sum of c and d.
func (c Count) Plus(d Count) Count { return Count{c.Objects + d.Objects, c.Bytes + d.Bytes} }

// Minus is c without d.
func (c Count) Minus(d Count) Count { return Count{c.Objects - d.Objects, c.Bytes - d.Bytes} }

// StoredSize is what an object of that size takes: its bytes and its outboard.
func StoredSize(size int64) int64 { return size + b3.OutboardSize(size) }

// PartialSize is what held bytes of a partial object take, about: which parents are
// here is not counted.
func PartialSize(held int64) int64 { return held + OutboardShare(held) }

// OutboardShare is the outboard of n bytes of large objects, rounded up.
func OutboardShare(n int64) int64 {
	const share = b3.GroupSize / b3.ParentSize
	return (n + share - 1) / share
}
