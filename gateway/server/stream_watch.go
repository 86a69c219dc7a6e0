package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// streamWatch resets the HTTP/2 stream of an answer that its client does not take. A write that
// takes too long on a connection that is not congested waits for the stream's window.
//
// It replaces net/http's write deadline, which does not tell why it passed. stop ends the watch
// and waits for a running look, because net/http's stream must not be used after the handler
// has returned.
type streamWatch struct {
	w        *delivery
	c        *conn
	progress progress // of the connection while this stream waits for it; look alone uses it
	timer    *time.Timer
	since    atomic.Int64 // start of the current write, in nanoseconds since 1970; 0: no write
	length   atomic.Int64 // bytes of that write
	evict    atomic.Bool  // reset the stream now

	mu    sync.Mutex
	done  bool          // stop was called
	busy  bool          // look runs
	idle  chan struct{} // closed when look ends, if stop waits for it
	reset time.Time     // when the stream was reset; zero: it was not
}

// watchStream starts to watch an answer on c.
func (d *delivery) watchStream(c *conn) {
	s := &streamWatch{w: d, c: c}
	s.progress.limits = c.progress.limits
	d.stream = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(d.writeTimeout, s.look)
}

// begin notes the start of a write of n bytes, and end its end.
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

// look runs when the timer fires. It resets the stream if the client is too slow, or sets the
// timer again. If the connection does not take the reset in time, look ends the connection.
func (s *streamWatch) look() {
	if !s.enter() {
		return
	}
	defer s.leave()
	now := time.Now()
	if s.wasReset() {
		if left := s.reset.Add(s.w.writeTimeout / 4).Sub(now); left > 0 {
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
			s.w.metrics.timeouts.WithLabelValues("write").Inc()
		}
		s.cut(now)
		return
	}
	s.timer.Reset(max(again, s.w.writeTimeout/16))
}

// wait returns the time until the next look, or 0 or less if the client is too slow. If the
// connection is congested, wait measures the connection's progress: the stream's bytes may all
// be in the kernel, with no write in progress.
func (s *streamWatch) wait(now time.Time) time.Duration {
	since := s.since.Load()
	if since == 0 {
		return s.progress.limits.idleTimeout
	}
	allowed := s.progress.limits.idleTimeout + s.progress.limits.timeFor(s.length.Load())
	if left := allowed - now.Sub(time.Unix(0, since)); left > 0 {
		return left
	}
	if s.c.congested() {
		return s.progress.measure(s.c.acknowledged(), now)
	}
	return 0
}

// cut resets the stream, and lets look check later whether the connection took the reset. The
// handler returns then. Unsent earlier bytes delay the reset; bytes on their way do not.
func (s *streamWatch) cut(now time.Time) {
	s.mu.Lock()
	s.reset = now
	s.mu.Unlock()
	_ = s.w.rc.SetWriteDeadline(pastDeadline) // HTTP/2 supports write deadlines
	s.timer.Reset(s.w.writeTimeout / 4)
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
	idle, again := s.idle, s.evict.Load() && s.reset.IsZero()
	s.idle = nil
	s.mu.Unlock()
	if again { // evictNow ran while look did
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
