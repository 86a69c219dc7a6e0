package object

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/status"
)

// stall fails an operation on a stream that makes no progress. It moves the
// stream's deadline only when that is off by more than half, so a busy stream
// costs one timer per d/2 and not one per call, and it looks again when the
// deadline fires: a read fails after exactly d without a byte. A write that
// fails had at least d without one, and less than 2d: when in a call the peer
// took bytes is not known.
//
// A stream is never read with an expired deadline: yamux then may lose the
// window update that belongs to the bytes it hands out.
type stall struct {
	set   func(time.Time) error // SetReadDeadline or SetWriteDeadline
	armed time.Time             // what set was last given
	since time.Time             // last progress, or the start of the wait
}

// start begins an operation that may stand still for d.
func (s *stall) start(d time.Duration) {
	s.since = time.Now()
	if left := s.armed.Sub(s.since); left < d/2 || left > d {
		s.arm(s.since.Add(d))
	}
}

// progress says that at t the wait was not for nothing.
func (s *stall) progress(t time.Time) {
	if t.After(s.since) {
		s.since = t
	}
}

// again reports whether the operation that failed with err after n bytes is to
// be continued: the deadline fired, but d has not passed since the last byte.
func (s *stall) again(n int, err error, d time.Duration) bool {
	if !isTimeout(err) {
		return false
	}
	now := time.Now()
	if n > 0 {
		s.progress(now)
	}
	end := s.since.Add(d)
	if !end.After(now) {
		return false
	}
	s.arm(end)
	return true
}

func (s *stall) arm(t time.Time) {
	s.armed = t
	_ = s.set(t) // a stream that takes no deadline is closed: the operation itself says so
}

// isTimeout reports whether a stream's deadline fired. yamux's own timeout is
// not os.ErrDeadlineExceeded.
func isTimeout(err error) bool {
	return err != nil && saysTimeout(err)
}

func saysTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func timeoutError(op string, d time.Duration) error {
	return status.Errorf(status.Timeout, "object: %s: no progress for %s", op, d)
}

// resetWhenDone resets st when ctx ends before stop is called. stop waits for
// a reset that began and reports whether there was one.
func resetWhenDone(ctx context.Context, st network.Stream, code network.StreamErrorCode) (stop func() bool) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = st.ResetWithError(code)
	})
	return func() bool {
		if cancel() {
			return false
		}
		<-done
		return true
	}
}
