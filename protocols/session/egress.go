package session

import (
	"errors"
	"sync"
	"time"

	"allium/internal/deadline"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// outgoing is a frame on its way to the writer.
type outgoing struct {
	frame   oap.Frame
	charged int64  // bytes taken from the budgets
	final   bool   // the answer to a request: what a drain waits for
	age     uint64 // among the frames of the peer; 0 where nothing is dropped for its age

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
// there are at most egress_frames; an idle session holds none.
type egress struct {
	first, last *outgoing
	writer      writerState
	wake        chan struct{} // capacity 1, to a writer that rests; made with the first
}

// writerState says what the goroutine that writes a link's stream does.
type writerState int

const (
	absent  writerState = iota // there is none: the next frame starts one
	writing                    // it looks into the queue before it rests
	resting                    // it waits for wake
)

// linger is how long a writer rests before it ends. A goroutine that is started
// for every frame costs more than one that waits: its stack grows anew.
const linger = time.Second

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

// remove takes a frame out of the middle; before is the one before it, if any.
func (e *egress) remove(before, o *outgoing) {
	if before == nil {
		e.first = o.next
	} else {
		before.next = o.next
	}
	if e.last == o {
		e.last = before
	}
	o.next = nil
}

// put queues a frame whose permit is held and sees to it that a writer sends
// it.
func (l *link) put(o *outgoing) {
	if l.peer.permits.makeRoom != nil {
		o.age = l.peer.frames.Add(1)
	}
	e := &l.egress
	l.mu.Lock()
	e.add(o)
	was := e.writer
	e.writer = writing
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
	l.mu.Unlock()
	switch was {
	case resting:
		e.nudge()
	case absent:
		l.writer.Go(func() {
			if err := l.guarded(l.write); err != nil {
				l.fail(err)
			}
		})
	}
}

// nudge ends the rest of the writer.
func (e *egress) nudge() {
	select {
	case e.wake <- struct{}{}:
	default: // it was nudged before and found something to do by itself
	}
}

// dismiss waits for the writer, when nothing is queued any more.
func (l *link) dismiss() {
	l.mu.Lock()
	rests := l.egress.writer == resting
	l.mu.Unlock()
	if rests {
		l.egress.nudge()
	}
	l.writer.Wait()
}

// forget gives back what frames held. An answer that was not sent stays owed,
// so that the stream is not closed as if nothing were missing.
func (l *link) forget(first *outgoing, sent bool) {
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
	switch {
	case finals == 0:
	case sent:
		l.paid(finals)
	default:
		l.svc.inflight.done(finals)
	}
}

// paid ends what n calls of dispatch began.
func (l *link) paid(n int) {
	l.mu.Lock()
	l.owed -= n
	l.mu.Unlock()
	l.svc.inflight.done(n)
}

// write sends what is queued until nothing is for a while, or nothing will be.
// There is one at a time: it is the stream's only writer. What it fails with it
// has told fail.
func (l *link) write() error {
	e, patience := &l.egress, time.NewTimer(linger)
	defer patience.Stop()
	tired := false
	for !l.ended.Load() {
		l.mu.Lock()
		frames := e.take(deadline.Piece)
		if frames == nil {
			l.writing.Rest() // before another writer may start
			e.writer = resting
			if tired || l.shut {
				e.writer = absent
			}
		}
		gone := e.writer == absent
		l.mu.Unlock()
		if gone {
			break
		}
		if frames != nil {
			tired = false
			if !l.send(frames) {
				break
			}
			continue
		}
		patience.Reset(linger)
		select {
		case <-e.wake:
		case <-patience.C:
			tired = true
		}
	}
	return nil
}

// send writes frames at once; false: the link failed.
func (l *link) send(frames *outgoing) bool {
	sent := false
	err := func() error {
		defer func() { l.forget(frames, sent) }() // whatever happens
		for o := frames; o != nil; o = o.next {
			if err := l.out.Add(o.frame); err != nil {
				return err
			}
		}
		err := l.out.Flush()
		sent = err == nil
		return err
	}()
	if err == nil {
		return true
	}
	if errors.Is(err, deadline.ErrPassed) {
		l.svc.m.timeouts.WithLabelValues("write").Inc()
		err = status.Errorf(status.Timeout, "session: write: the peer takes nothing, or less than %s/s: %w", l.svc.cfg.MinRate, err)
	}
	l.fail(err)
	return false
}
