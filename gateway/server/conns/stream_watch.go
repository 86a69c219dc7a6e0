package conns

import (
	"sync"
	"sync/atomic"
	"time"
)

// streamWatch resets the HTTP/2 stream of an answer whose client takes nothing of it for the
// stall time. Other streams of the connection may go on meanwhile.
//
// It replaces net/http's write deadline, which must be set again for each write. stop ends the
// watch and waits for a running look, because net/http's stream must not be used after the
// handler has returned.
type streamWatch struct {
	c *Conn
	Answer
	timer *time.Timer
	since atomic.Int64 // start of the current write, in nanoseconds since 1970; 0: no write
	slow  bool         // the last write took more than a second; the handler's goroutine uses it
	evict atomic.Bool  // reset the stream now

	mu    sync.Mutex    // lock: leaf
	done  bool          // stop was called
	busy  bool          // look runs
	idle  chan struct{} // closed when look ends, if stop waits for it
	reset time.Time     // when the stream was reset; zero: it was not
}

// maxResetWait bounds the time in which a connection must take the reset of a stream.
const maxResetWait = 5 * time.Second

// resetWait returns the time in which the connection must take the reset of the stream.
func (s *streamWatch) resetWait() time.Duration { return min(maxResetWait, s.Stall/4) }

// watchStream starts to watch an answer on c.
func watchStream(c *Conn, a Answer) *streamWatch {
	s := &streamWatch{c: c, Answer: a}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(a.Stall, s.look)
	return s
}

// begin notes the start of a write, and end its end.
func (s *streamWatch) begin() {
	if s != nil {
		s.since.Store(time.Now().UnixNano())
	}
}

func (s *streamWatch) end() {
	if s != nil {
		s.slow = time.Now().UnixNano()-s.since.Swap(0) > int64(time.Second)
	}
}

// piece returns how many bytes of n to write at once, so that the progress of the stream shows.
func (s *streamWatch) piece(n int) int {
	switch {
	case s == nil:
		return n
	case s.slow:
		return min(n, 4<<10)
	}
	return min(n, 64<<10)
}

// look runs when the timer fires. It resets the stream if the client stands still, or sets the
// timer again. If the connection does not take the reset in time, look ends the connection.
func (s *streamWatch) look() {
	if !s.enter() {
		return
	}
	defer s.leave()
	now := time.Now()
	if s.wasReset() {
		if left := s.reset.Add(s.resetWait()).Sub(now); left > 0 {
			s.timer.Reset(left)
		} else {
			s.c.EndWrites()
		}
		return
	}
	again := s.wait(now)
	slow := again <= 0
	if slow || s.evict.Load() {
		if slow {
			s.OnStall()
		}
		s.cut(now)
		return
	}
	s.timer.Reset(again)
}

// wait returns the time until the next look, or 0 or less if the client stands still.
func (s *streamWatch) wait(now time.Time) time.Duration {
	since := s.since.Load()
	if since == 0 {
		return s.Stall
	}
	return s.Stall - now.Sub(time.Unix(0, since))
}

// cut resets the stream, and lets look check later whether the connection took the reset. The
// handler returns then. Unsent earlier bytes delay the reset; bytes on their way do not.
func (s *streamWatch) cut(now time.Time) {
	s.mu.Lock()
	s.reset = now
	s.mu.Unlock()
	_ = s.RC.SetWriteDeadline(pastDeadline) // HTTP/2 supports write deadlines
	s.timer.Reset(s.resetWait())
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
