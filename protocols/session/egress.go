package session

import (
	"errors"
	"sync"
	"time"

	"allium/internal/deadline"
	"allium/internal/env"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// outgoing is a frame in the queue of the writer.
type outgoing struct {
	frame   oap.Frame
	charged int64  // bytes charged to the budgets
	final   bool   // whether it is the answer to a request, which a drain waits for
	age     uint64 // sequence number among the peer's frames; 0 if the policy drops none

	next *outgoing // next frame in the queue
}

// unused holds frames for reuse.
var unused = sync.Pool{New: func() any { return new(outgoing) }}

// outgoingFrame returns a frame without a payload.
func outgoingFrame(h oap.Header) *outgoing {
	o := unused.Get().(*outgoing)
	o.frame.Header = h
	return o
}

// egress is the frame queue of a link's writer. Every queued frame has a permit, so
// there are at most egress_frames.
type egress struct {
	first, last *outgoing
	writer      writerState
	wake        chan struct{} // capacity 1; wakes a waiting writer; made with the first frame
}

// writerState is the state of a link's writing goroutine.
type writerState int

const (
	writerStopped writerState = iota // not running: the next frame starts it
	writerRunning                    // running: it checks the queue before it waits
	writerWaiting                    // waiting for wake
)

// writerIdle is the time that a writer waits for a frame before it ends. Starting a goroutine for
// each frame would cost more, because its stack grows each time.
const writerIdle = time.Second

// add appends a frame.
func (e *egress) add(o *outgoing) {
	if e.first == nil {
		e.first = o
	} else {
		e.last.next = o
	}
	e.last = o
}

// take removes and returns the frames for one write: at least one frame, and
// otherwise at most the given number of bytes.
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

// remove removes o from the queue. before is the frame before o, or nil.
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

// put queues a frame and starts or wakes the writer. The caller has a frame permit.
func (l *link) put(o *outgoing) {
	if l.peer.permits.dropOldest != nil {
		o.age = l.peer.frames.Add(1)
	}
	e := &l.egress
	l.mu.Lock()
	e.add(o)
	was := e.writer
	e.writer = writerRunning
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
	l.mu.Unlock()
	switch was {
	case writerWaiting:
		e.wakeWriter()
	case writerStopped:
		l.writer.Go(func() {
			if err := l.recoverPanic(l.write); err != nil {
				l.fail(err)
			}
		})
	}
}

// wakeWriter wakes the writer. It never blocks.
func (e *egress) wakeWriter() {
	select {
	case e.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// stopWriter waits until the writer has ended. Nothing may be queued afterwards.
func (l *link) stopWriter() {
	l.mu.Lock()
	rests := l.egress.writer == writerWaiting
	l.mu.Unlock()
	if rests {
		l.egress.wakeWriter()
	}
	l.writer.Wait()
}

// releaseFrames releases the permits and bytes of a list of frames. An answer that was not
// sent still counts in owed, so that the stream is reset and not closed.
func (l *link) releaseFrames(first *outgoing, sent bool) {
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
		l.answersWritten(finals)
	default:
		for range finals {
			l.svc.inflight.Leave()
		}
	}
}

// answersWritten records that the answers of n dispatched requests were written.
func (l *link) answersWritten(n int) {
	l.mu.Lock()
	l.unanswered -= n
	l.mu.Unlock()
	for range n {
		l.svc.inflight.Leave()
	}
}

// write sends queued frames. It ends when no frame was queued for a second, when the
// link accepts no more frames, or when the stream fails; then it has called fail. At
// most one write runs at a time; it is the stream's only writer.
func (l *link) write() error {
	e, timer := &l.egress, time.NewTimer(writerIdle)
	defer timer.Stop()
	timedOut := false
	for !l.ended.Load() {
		l.mu.Lock()
		frames := e.take(deadline.Piece)
		if frames == nil {
			l.writing.Rest() // before another writer may start
			e.writer = writerWaiting
			if timedOut || l.shut {
				e.writer = writerStopped
			}
		}
		done := e.writer == writerStopped
		l.mu.Unlock()
		if done {
			break
		}
		if frames != nil {
			timedOut = false
			if !l.send(frames) {
				break
			}
			continue
		}
		timer.Reset(writerIdle)
		select {
		case <-e.wake:
		case <-timer.C:
			timedOut = true
		}
	}
	return nil
}

// send writes frames in one write. It returns false if the link failed.
func (l *link) send(frames *outgoing) bool {
	sent := false
	err := func() error {
		defer func() { l.releaseFrames(frames, sent) }() // also after a panic
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
		l.svc.m.timeouts.WithLabelValues(env.TimeoutSessionWrite).Inc()
		err = status.Errorf(status.Timeout, "write: the peer reads nothing, or less than %s/s: %w",
			l.cfg.MinRate, err)
	}
	l.fail(err)
	return false
}
