package meta

import (
	"sync/atomic"

	"allium/protocols/b3"
)

// Totals counts visible objects. The disk backend saves the counters when it closes
// cleanly. When it opens after a crash, it counts its index instead. Totals is safe
// for concurrent use.
type Totals struct {
	Objects, Bytes, Corrupt   atomic.Int64
	LargeBytes, OutboardBytes atomic.Int64 // bytes of large objects, and of their outboards

	PendingObjects, PendingBytes atomic.Int64 // small objects that wait for a commit; not visible yet
}

// Counters returns the counters that a clean close saves, in the order in which
// they are saved.
func (t *Totals) Counters() [5]*atomic.Int64 {
	return [...]*atomic.Int64{&t.Objects, &t.Bytes, &t.Corrupt, &t.LargeBytes, &t.OutboardBytes}
}

// Clear sets the saved counters to zero.
func (t *Totals) Clear() {
	for _, c := range t.Counters() {
		c.Store(0)
	}
}

// Add adds e to the counters.
func (t *Totals) Add(e Entry) { t.Replace(nil, []Entry{e}) }

// Sub subtracts e from the counters.
func (t *Totals) Sub(e Entry) { t.Replace([]Entry{e}, nil) }

// Replace subtracts the entries before and adds the entries after. Each counter
// changes once, so that an entry in both is never missing from it.
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

// count adds n times e to the sums of the counters.
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

// Pend counts a small object of size bytes as pending.
func (t *Totals) Pend(size int64) {
	t.PendingObjects.Add(1)
	t.PendingBytes.Add(size)
}

// Settle subtracts pending objects that are now visible, or are not needed.
func (t *Totals) Settle(n Count) {
	t.PendingObjects.Add(-n.Objects)
	t.PendingBytes.Add(-n.Bytes)
}

// Count is a number of objects and their bytes, including outboards.
type Count struct{ Objects, Bytes int64 }

// Add adds one object of the given bytes.
func (c *Count) Add(bytes int64) { c.Objects++; c.Bytes += bytes }

// Plus returns the sum of c and d.
func (c Count) Plus(d Count) Count { return Count{c.Objects + d.Objects, c.Bytes + d.Bytes} }

// Minus returns c without d.
func (c Count) Minus(d Count) Count { return Count{c.Objects - d.Objects, c.Bytes - d.Bytes} }

// StoredSize returns the stored bytes of an object of the given size: its own and
// those of its outboard.
func StoredSize(size int64) int64 { return size + b3.OutboardSize(size) }

// PartialSize estimates the disk space of a partial object with that many arrived bytes, with its outboard. It does not
// count which nodes of the outboard have arrived.
func PartialSize(arrived int64) int64 { return arrived + OutboardShare(arrived) }

// OutboardShare returns the outboard bytes of n bytes of large objects, rounded up.
func OutboardShare(n int64) int64 {
	const share = b3.GroupSize / b3.ParentSize
	return (n + share - 1) / share
}
