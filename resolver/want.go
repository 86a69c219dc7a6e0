package resolver

import (
	"context"
	"sync/atomic"

	"allium/protocols/b3"
)

// How many groups a reader may be ahead of: what lies further on is asked for
// when it has come nearer, so that a slow reader of a large object pulls no more
// than it reads.
const (
	readAhead  = 1024 // unless it says less
	leastAhead = 8
)

// want is what one user of a transfer waits for. Its context ends with the
// reason when it cannot be had.
type want struct {
	t      *transfer
	opt    OpenOptions
	whole  bool  // all of the object, as fast as it comes: there is no reader to wait for
	ahead  int64 // groups that may come before they are read
	ctx    context.Context
	cancel context.CancelCauseFunc

	pos  atomic.Int64 // the group that is read next, or the first one
	wake atomic.Int64 // the position at which the schedule wants to hear of the reader; 0: at none

	// Of the schedule alone.
	set    bool  // lo and hi are
	lo, hi int64 // groups wanted
	low    int64 // no group in [lo, low) is missing, as far as pos allows to say
	failed bool
}

// bounds sets the groups wanted of an object of that size.
func (w *want) bounds(size int64) {
	if w.set {
		return
	}
	w.set = true
	if w.whole {
		w.hi = b3.Groups(size)
		return
	}
	start, end, err := w.opt.within(w.t.root, size)
	if err != nil || w.opt.empty() {
		return
	}
	w.lo = start / b3.GroupSize
	w.hi = min(b3.Groups(end), b3.Groups(size))
	w.low = w.lo
}

// from is the first group that is still of use.
func (w *want) from() int64 {
	if w.whole {
		return max(w.lo, w.low)
	}
	return max(w.low, w.reader())
}

// reader is the group that is read next.
func (w *want) reader() int64 { return max(w.lo, w.pos.Load()) }

// limit is the first group that is not asked for yet.
func (w *want) limit() int64 {
	if w.whole {
		return w.hi
	}
	return min(w.hi, w.reader()+w.ahead)
}

// span is how many groups a reader has asked for at once, at most: so that
// several requests are in flight.
func (w *want) span() int64 { return w.ahead / 4 }

// step is what a reader has to come nearer for more to be asked for.
func (w *want) step() int64 { return w.ahead / 8 }

// at notes that the reader has come to group g.
func (w *want) at(g int64) {
	w.pos.Store(g)
	if wake := w.wake.Load(); wake > 0 && g >= wake && w.wake.CompareAndSwap(wake, 0) {
		w.t.nudge()
	}
}

// wakeAt asks for a nudge when the reader has come to group g. It reports
// whether the reader is there already.
func (w *want) wakeAt(g int64) (there bool) {
	w.wake.Store(g)
	return w.pos.Load() >= g && w.wake.CompareAndSwap(g, 0)
}

// fail ends the wait with err.
func (w *want) fail(err error) {
	w.failed = true
	w.cancel(err)
}

// why is the reason for the end of the want's context, or err while it lasts.
func (w *want) why(err error) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// leave ends the use of the transfer.
func (w *want) leave() {
	w.cancel(nil)
	w.t.part(w)
}

// sized waits for the proved size; −1 when there was nothing to fetch.
func (w *want) sized() (int64, error) {
	t := w.t
	select {
	case <-t.known:
		return t.size, nil
	case <-t.done:
		if t.err != nil || t.ingest == nil {
			return -1, t.err
		}
		return t.size, nil
	case <-w.ctx.Done():
		return -1, w.why(nil)
	}
}

// head is the first n groups that w wants, as far as that can be said without
// the size; none if not.
func (w *want) head(n int64) run {
	o := w.opt
	switch {
	case n == 0, o.Start < 0, o.Start > b3.MaxSize, !w.whole && o.empty():
		return run{}
	case w.whole:
		return run{0, n}
	}
	r := run{lo: o.Start / b3.GroupSize}
	r.hi = r.lo + min(n, w.span())
	if o.End >= 0 {
		r.hi = min(r.hi, (o.End-1)/b3.GroupSize+1)
	}
	return r
}
