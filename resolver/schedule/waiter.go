package schedule

import (
	"slices"
	"time"

	"allium/protocols/b3"
)

// Demand is the range of bytes of the object that a waiter needs.
type Demand struct {
	// Whole demands the whole object as fast as it arrives, without a reader to
	// wait for. Start, End and Ahead are then ignored.
	Whole bool
	// Start and End are the demanded bytes. End is −1 for the end of the object. A
	// negative Start counts from the end. The range is empty when Start == End.
	Start, End int64
	// Ahead is the reader's window: how many groups may arrive before they are read.
	Ahead int64
}

// Cut returns the range of bytes within an object of the given size. ok is false
// when the range begins behind the end of the object.
func (w Demand) Cut(size int64) (start, end int64, ok bool) {
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

// waiter is a Demand and how far it has come.
//
// Invariant: no group in [max(lo, pos), low) is missing.
type waiter struct {
	Demand
	id     WaiterID
	pos    int64 // the group that the reader reads next
	set    bool  // lo and hi are set
	lo, hi int64 // the demanded groups
	low    int64
	follow int64         // the group of the last Follow
	until  time.Duration // it waits for providers to return; 0: it does not
	failed bool
}

// bound sets the demanded groups of an object of the given size.
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

// from returns the first group that the waiter still needs.
func (w *waiter) from() int64 {
	if w.Whole {
		return max(w.lo, w.low)
	}
	return max(w.low, w.reader())
}

// reader returns the group that is read next.
func (w *waiter) reader() int64 { return max(w.lo, w.pos) }

// limit returns the end of the window: groups from there on are not requested yet.
func (w *waiter) limit() int64 {
	if w.Whole {
		return w.hi
	}
	return min(w.hi, w.reader()+w.Ahead)
}

// atOnce returns the most groups of one request for a reader: a quarter of the
// window, so that several requests are in flight.
func (w *waiter) atOnce() int64 { return w.Ahead / 4 }

// step returns how many groups a reader advances before more are requested.
func (w *waiter) step() int64 { return w.Ahead / 8 }

// head returns the first n demanded groups. It is empty when these cannot be known
// without the size.
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

// tooShort reports whether the reader's window cuts r to less than a request is
// worth, while the reader has other groups to read first.
func (w *waiter) tooShort(r Run, n int64) bool {
	limit := w.limit()
	return r.Hi == limit && limit < w.hi && r.Hi-r.Lo < min(n, w.step()) && r.Lo > w.reader()
}

// waiters are those of a transfer.
type waiters []*waiter

// Leave removes a waiter.
func (all *waiters) Leave(id WaiterID) {
	*all = slices.DeleteFunc(*all, func(w *waiter) bool { return w.id == id })
}

// Read sets the group that a reader reads next.
func (all waiters) Read(id WaiterID, group int64) {
	for _, w := range all {
		if w.id == id {
			w.pos = group
		}
	}
}

// Patience sets until when a waiter waits for providers to return, once all are lost and one of them may; 0: it
// fails at once.
func (all waiters) Patience(id WaiterID, until time.Duration) {
	for _, w := range all {
		if w.id == id {
			w.until = until
		}
	}
}

// allFailed reports whether every waiter has failed.
func (all waiters) allFailed() bool {
	return !slices.ContainsFunc(all, func(w *waiter) bool { return !w.failed })
}

// whole reports whether none of the waiters is a reader.
func (all waiters) whole() bool {
	return !slices.ContainsFunc(all, func(w *waiter) bool { return !w.Whole })
}

// wanted reports whether one of the waiters still needs a group of r.
func (all waiters) wanted(r Run) bool {
	return slices.ContainsFunc(all, func(w *waiter) bool { return !w.failed && w.from() < r.Hi && r.Lo < w.hi })
}

// window returns the first group of the window in which groups are needed next.
func (all waiters) window() int64 {
	first := int64(-1)
	for _, w := range all {
		if w.failed {
			continue
		}
		at := w.head(1).Lo
		if w.set {
			at = w.from()
		}
		if first < 0 || at < first {
			first = at
		}
	}
	return max(first, 0) &^ (Window - 1)
}
