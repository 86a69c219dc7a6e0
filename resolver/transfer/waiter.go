package transfer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
	"allium/resolver/schedule"
)

// Waiter is one user of a transfer. Its context ends with the cause when the
// transfer fails.
type Waiter struct {
	t      *transfer
	opt    Options
	id     schedule.WaiterID
	whole  bool // the whole object as fast as it arrives, without a reader
	joined time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc

	pos    atomic.Int64 // the group that is read next
	follow atomic.Int64 // the group at which the reader wakes the driver; 0 for none
}

// at records that the reader has reached group g.
func (w *Waiter) at(g int64) {
	w.pos.Store(g)
	if wake := w.follow.Load(); wake > 0 && g >= wake && w.follow.CompareAndSwap(wake, 0) {
		w.t.wakeDriver()
	}
}

// followTo makes the reader wake the driver at group g. It reports whether the
// reader has reached g already.
func (w *Waiter) followTo(g int64) (there bool) {
	w.follow.Store(g)
	return w.pos.Load() >= g && w.follow.CompareAndSwap(g, 0)
}

// fail ends the wait with err.
func (w *Waiter) fail(err error) {
	w.t.trace.Fault(err)
	w.cancel(err)
}

// why returns the cause of the end of the waiter's context, or err while it lasts.
func (w *Waiter) why(err error) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// Leave ends the use of the transfer.
func (w *Waiter) Leave() {
	w.cancel(nil)
	w.t.waiters.remove(w)
	w.t.wakeDriver()
}

// Size waits for the proved size. It returns −1 when the object was local.
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

// Resumed returns how many bytes were stored when the transfer began. The size must
// be known.
func (w *Waiter) Resumed() int64 { return w.t.resumed }

// LookupID returns the lookup that records the transfer. All its waiters have the same.
func (w *Waiter) LookupID() status.LookupID { return w.t.trace.ID() }

// Senders returns the peers that sent something.
func (w *Waiter) Senders() []peer.ID { return w.t.peers.senders() }

// demand returns the waiter as the schedule knows it.
func (w *Waiter) demand() schedule.Demand {
	d := w.opt.demand()
	d.Whole = w.whole
	return d
}
