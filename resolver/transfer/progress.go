package transfer

import "time"

// Progress is the state of a running fetch. The totals are those known so far; they
// grow while a directory is being read.
type Progress struct {
	Objects, ObjectsKnown int64 // objects that are local now, and their total
	Bytes, BytesKnown     int64
	Resumed               int64 // the part of Bytes that an earlier fetch had stored
	Peers                 int   // number of peers that sent something
}

// ProgressInterval is the time between two reports of progress.
const ProgressInterval = 100 * time.Millisecond

// Wait waits until the whole object is stored and returns its size, or −1 when the
// object was local. If report is not nil, Wait calls it every ProgressInterval and
// at the end.
func (w *Waiter) Wait(report func(Progress)) (size int64, err error) {
	var tick <-chan time.Time
	if report != nil {
		t := time.NewTicker(ProgressInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-tick:
			report(w.t.progress())
		case <-w.t.done:
			if w.t.err == nil && report != nil {
				p := w.t.progress()
				p.Objects = 1
				report(p)
			}
			if w.t.err != nil || w.t.ingest == nil {
				return -1, w.t.err
			}
			return w.t.size, nil
		case <-w.ctx.Done():
			return -1, w.why(nil)
		}
	}
}

func (t *transfer) progress() Progress {
	p := Progress{ObjectsKnown: 1, Peers: len(t.peers.senders())}
	select {
	case <-t.known:
		p.Bytes, p.BytesKnown, p.Resumed = t.resumed+t.arrivals.bytes.Load(), t.size, t.resumed
	default:
	}
	return p
}
