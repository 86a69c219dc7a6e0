package schedule

import "allium/protocols/b3"

// Want is what a waiter waits for.
type Want struct {
	// Whole is all of the object, as fast as it comes: there is no reader to wait
	// for. Start, End and Ahead are then of no use.
	Whole bool
	// Start and End are the bytes wanted; End is −1 for all to the end. A
	// negative Start counts from the end. Start == End are no bytes.
	Start, End int64
	// Ahead is how many groups may come before they are read.
	Ahead int64
}

// Cut cuts the range to an object of that size; ok is false when it begins
// behind its end.
func (w Want) Cut(size int64) (start, end int64, ok bool) {
	if w.Start == w.End {
		return 0, 0, true
	}
	start, end = w.Start, w.End
	if end < 0 || end > size {
		end = size
	}
	if start < 0 {
		return max(0, size+start), end, true
	}
	if start > size || start == size && start > 0 {
		return 0, 0, false
	}
	return start, end, true
}

// waiter is a Want and how far it has come.
//
// Invariant: no group in [lo, low) is missing, as far as pos allows to say.
type waiter struct {
	Want
	id     WaiterID
	pos    int64 // the group that is read next
	set    bool  // lo and hi are
	lo, hi int64 // groups wanted
	low    int64
	follow int64 // the group that Follow named last
	failed bool
}

// bound sets the groups wanted of an object of that size.
func (w *waiter) bound(size int64) {
	if w.set {
		return
	}
	w.set = true
	if w.Whole {
		w.hi = b3.Groups(size)
		return
	}
	start, end, ok := w.Cut(size)
	if !ok || w.Start == w.End {
		return
	}
	w.lo = start / b3.GroupSize
	w.hi = min(b3.Groups(end), b3.Groups(size))
	w.low = w.lo
}

// from is the first group that is still of use.
func (w *waiter) from() int64 {
	if w.Whole {
		return max(w.lo, w.low)
	}
	return max(w.low, w.reader())
}

// reader is the group that is read next.
func (w *waiter) reader() int64 { return max(w.lo, w.pos) }

// limit is the first group that is not asked for yet.
func (w *waiter) limit() int64 {
	if w.Whole {
		return w.hi
	}
	return min(w.hi, w.reader()+w.Ahead)
}

// atOnce is how many groups a reader has asked for in one request, at most: so
// that several requests are in flight.
func (w *waiter) atOnce() int64 { return w.Ahead / 4 }

// step is what a reader has to come nearer for more to be asked for.
func (w *waiter) step() int64 { return w.Ahead / 8 }

// head is the first n groups wanted, as far as that can be said without the size;
// none if not.
func (w *waiter) head(n int64) Run {
	switch {
	case n == 0, !w.Whole && (w.Start < 0 || w.Start > b3.MaxSize || w.Start == w.End):
		return Run{}
	case w.Whole:
		return Run{0, n}
	}
	r := Run{Lo: w.Start / b3.GroupSize}
	r.Hi = r.Lo + min(n, w.atOnce())
	if w.End >= 0 {
		r.Hi = min(r.Hi, (w.End-1)/b3.GroupSize+1)
	}
	return r
}

// tooShort reports whether r is cut by the reader's window to less than is worth
// a request, while the reader has something else to read.
func (w *waiter) tooShort(r Run, n int64) bool {
	limit := w.limit()
	return r.Hi == limit && limit < w.hi && r.Hi-r.Lo < min(n, w.step()) && r.Lo > w.reader()
}
