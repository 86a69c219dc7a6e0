package transfer

import (
	"context"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/resolver/schedule"
)

// Waiter is what one user of a transfer waits for. Its context ends with the
// reason when it cannot be had.
type Waiter struct {
	t      *transfer
	opt    Options
	id     schedule.WaiterID
	whole  bool // all of the object, as fast as it comes: there is no reader to wait for
	ctx    context.Context
	cancel context.CancelCauseFunc

	pos    atomic.Int64 // the group that is read next, or the first one
	follow atomic.Int64 // the position at which the schedule wants to hear of the reader; 0: at none
}

// at notes that the reader has come to group g.
func (w *Waiter) at(g int64) {
	w.pos.Store(g)
	if wake := w.follow.Load(); wake > 0 && g >= wake && w.follow.CompareAndSwap(wake, 0) {
		w.t.wakeDriver()
	}
}

// followTo wakes the driver when the reader has come to group g. It reports
// whether the reader is there already.
func (w *Waiter) followTo(g int64) (there bool) {
	w.follow.Store(g)
	return w.pos.Load() >= g && w.follow.CompareAndSwap(g, 0)
}

// fail ends the wait with err.
func (w *Waiter) fail(err error) { w.cancel(err) }

// why is the reason for the end of the want's context, or err while it lasts.
func (w *Waiter) why(err error) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// Leave ends the use of the transfer.
func (w *Waiter) Leave() {
	w.cancel(nil)
	w.t.part(w)
}

// Size waits for the proved size; −1 when there was nothing to fetch.
func (w *Waiter) Size() (int64, error) {
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

// Resumed is how many bytes were here when the transfer began. The size is known.
func (w *Waiter) Resumed() int64 { return w.t.resumed }

// LookupID names the transfer in the log.
func (w *Waiter) LookupID() string { return w.t.lookupID }

// Senders returns the peers that sent something.
func (w *Waiter) Senders() []peer.ID { return w.t.senders() }

// want is what the schedule knows of it.
func (w *Waiter) want() schedule.Want {
	want := w.opt.want()
	want.Whole = w.whole
	return want
}
