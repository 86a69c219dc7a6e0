package session

import (
	"sync"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// outgoing is a frame on its way to the writer.
type outgoing struct {
	frame   oap.Frame
	charged int64 // bytes taken from the budgets
	final   bool  // the answer to a request: what a drain waits for

	next *outgoing // behind it in the queue
}

// unused keeps frames that were sent for the next ones.
var unused = sync.Pool{New: func() any { return new(outgoing) }}

// outgoingFrame returns a frame without a payload.
func outgoingFrame(h oap.Header) *outgoing {
	o := unused.Get().(*outgoing)
	o.frame.Header = h
	return o
}

// egress is the queue of a link's writer. A frame that waits has a permit, so
// there are at most egress_frames; an idle session holds nothing.
type egress struct {
	first, last *outgoing
	served      bool // there is a writer, or will be no more
}

// add appends a frame.
func (e *egress) add(o *outgoing) {
	if e.first == nil {
		e.first = o
	} else {
		e.last.next = o
	}
	e.last = o
}

// take removes the frames that one write sends: at most so many bytes, but one
// frame at least.
func (e *egress) take(bytes int) (first *outgoing) {
	first = e.first
	var last *outgoing
	for o := first; o != nil; o = o.next {
		if bytes -= oap.HeaderSize + len(o.frame.Payload); bytes < 0 && last != nil {
			break
		}
		last = o
	}
	if last != nil {
		e.first, last.next = last.next, nil
	}
	return first
}

// put queues a frame whose permit is held, and starts the writer if there is
// none.
func (l *link) put(o *outgoing) {
	l.mu.Lock()
	l.egress.add(o)
	served := l.egress.served
	l.egress.served = true
	l.mu.Unlock()
	if !served {
		l.writer.Go(func() {
			if err := l.guarded(l.write); err != nil {
				l.fail(err)
			}
		})
	}
}

// forget gives back what frames held, sent or not.
func (l *link) forget(first *outgoing) {
	var frames, bytes int64
	finals := 0
	for o := first; o != nil; {
		frames++
		bytes += o.charged
		if o.final {
			finals++
		}
		next := o.next
		*o = outgoing{}
		unused.Put(o)
		o = next
	}
	if frames > 0 {
		l.peer.permits.release(frames, bytes)
	}
	if finals > 0 {
		l.paid(finals)
	}
}

// paid ends what n calls of dispatch began.
func (l *link) paid(n int) {
	l.mu.Lock()
	l.owed -= n
	l.mu.Unlock()
	l.svc.inflight.done(n)
}

// write sends what is queued until nothing is. There is one at a time: it is
// the stream's only writer. What it fails with it has told fail.
func (l *link) write() error {
	for !l.ended.Load() {
		l.mu.Lock()
		frames := l.egress.take(writePiece)
		if frames == nil {
			l.egress.served = false
			l.writing.rest() // before another writer may start
		}
		l.mu.Unlock()
		if frames == nil || !l.send(frames) {
			break
		}
	}
	return nil
}

// send writes frames at once; false: the link failed.
func (l *link) send(frames *outgoing) bool {
	err := func() error {
		defer l.forget(frames) // whatever happens
		for o := frames; o != nil; o = o.next {
			if err := l.out.Add(o.frame); err != nil {
				return err
			}
		}
		return l.out.Flush()
	}()
	if err == nil {
		return true
	}
	if isTimeout(err) {
		l.svc.m.timeouts.WithLabelValues("write").Inc()
		err = status.Errorf(status.Timeout, "session: write: the peer takes nothing, or less than %s/s: %w", l.svc.cfg.MinRate, err)
	}
	l.fail(err)
	return false
}
