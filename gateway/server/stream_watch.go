package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// streamWatch resets the HTTP/2 stream of an answer whose client does not take
// it: a write that lasts longer than it may, while the connection itself is not
// what it waits for, waits for the stream's window.
//
// It stands in place of a deadline of net/http, which cannot be asked why it
// passed. stop ends it, and waits for what it does at that time: net/http's
// stream must not be touched once the handler has returned.
type streamWatch struct {
	w      *delivery
	c      *conn
	pace   pace // of the connection while this stream waits for it; used by look alone
	timer  *time.Timer
	since  atomic.Int64 // when the write that goes on began, in nanoseconds since 1970; 0: there is none
	length atomic.Int64 // of that write
	evict  atomic.Bool  // reset it now

	mu    sync.Mutex
	done  bool
	idle  chan struct{} // of stop, which waits for busy to end; nil: it does not
	busy  bool
	reset time.Time // when it was; zero: it was not
}

// watchStream begins to watch an answer of a connection.
func (d *delivery) watchStream(c *conn) {
	s := &streamWatch{w: d, c: c}
	s.pace.limits = c.pace.limits
	d.stream = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(d.patience, s.look)
}

// begin notes that a write of n bytes begins, end that it is over.
func (s *streamWatch) begin(n int) {
	if s != nil {
		s.length.Store(int64(n))
		s.since.Store(time.Now().UnixNano())
	}
}

func (s *streamWatch) end() {
	if s != nil {
		s.since.Store(0)
	}
}

// look resets the stream, or comes back when it may have to. A reset that the
// connection does not take either ends that.
func (s *streamWatch) look() {
	if !s.enter() {
		return
	}
	defer s.leave()
	now := time.Now()
	if s.wasReset() {
		if left := s.reset.Add(s.w.patience / 4).Sub(now); left > 0 {
			s.timer.Reset(left)
		} else {
			s.c.endWrites()
		}
		return
	}
	again := s.wait(now)
	slow := again <= 0
	if slow || s.evict.Load() {
		if slow {
			s.w.m.timeouts.WithLabelValues("write").Inc()
		}
		s.cut(now)
		return
	}
	s.timer.Reset(max(again, s.w.patience/16))
}

// wait returns when to look again; 0 or less: the client is too slow. Where the
// stream waits for its connection, that is judged: it may be in no write, and
// all that the stream's window allowed be in the kernel.
func (s *streamWatch) wait(now time.Time) time.Duration {
	since := s.since.Load()
	if since == 0 {
		return s.pace.limits.patience
	}
	allowed := s.pace.limits.patience + s.pace.limits.timeFor(s.length.Load())
	if left := allowed - now.Sub(time.Unix(0, since)); left > 0 {
		return left
	}
	if s.c.congested() {
		return s.pace.judge(s.c.acknowledged(), now)
	}
	return 0
}

// cut resets the stream, and has look see whether that went out: the handler
// returns then. A connection that has not taken what was written before it keeps
// it waiting; bytes that are merely on their way do not.
func (s *streamWatch) cut(now time.Time) {
	s.mu.Lock()
	s.reset = now
	s.mu.Unlock()
	_ = s.w.rc.SetWriteDeadline(past) // it is HTTP/2's, which has one
	s.timer.Reset(s.w.patience / 4)
}

func (s *streamWatch) wasReset() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.reset.IsZero()
}

// evictNow makes look reset the stream.
func (s *streamWatch) evictNow() {
	s.evict.Store(true)
	s.timer.Reset(0)
}

func (s *streamWatch) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || s.busy {
		return false
	}
	s.busy = true
	return true
}

func (s *streamWatch) leave() {
	s.mu.Lock()
	s.busy = false
	idle, missed := s.idle, s.evict.Load() && s.reset.IsZero()
	s.idle = nil
	s.mu.Unlock()
	if missed { // evictNow came while the stream was looked at
		s.timer.Reset(0)
	}
	if idle != nil {
		close(idle)
	}
}

// stop ends the watch.
func (s *streamWatch) stop() {
	if s == nil {
		return
	}
	s.timer.Stop()
	s.mu.Lock()
	s.done = true
	var idle chan struct{}
	if s.busy {
		idle = make(chan struct{})
		s.idle = idle
	}
	s.mu.Unlock()
	if idle != nil {
		<-idle
		s.timer.Stop()
	}
}
