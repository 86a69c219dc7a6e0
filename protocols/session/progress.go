package session

import (
	"io"
	"time"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// deadlineError is a deadline that had passed before the stream was read: a
// stream with an expired deadline is not touched, as yamux may then lose the
// window update of the bytes it hands out.
type deadlineError struct{}

func (deadlineError) Error() string { return "session: deadline passed" }

// Timeout is what isTimeout looks for.
func (deadlineError) Timeout() bool { return true }

// pace bounds how long a peer may take over what it has begun to send, or has
// to take: it may stand still for patience, and each byte buys the time that it
// takes at rate, up to patience again. So a byte now and then does not keep a
// frame, and what is held for it, for ever.
type pace struct {
	patience time.Duration
	rate     int64     // bytes per second, ≥ 1
	end      time.Time // when the patience ends; zero: nothing is owed
}

// until returns when the peer has been too slow; the clock starts when nothing
// was owed before.
func (p *pace) until(now time.Time) time.Time {
	if p.end.IsZero() {
		p.end = now.Add(p.patience)
	}
	return p.end
}

// earn counts n bytes, if the clock runs.
func (p *pace) earn(n int) {
	if n <= 0 || p.end.IsZero() {
		return
	}
	p.end = p.end.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	if most := time.Now().Add(p.patience); p.end.After(most) {
		p.end = most
	}
}

// rest stops the clock: the peer owes nothing.
func (p *pace) rest() { p.end = time.Time{} }

// rearm is the part of the patience at the end of which a deadline is set anew,
// so that none passes while bytes come in: yamux may lose the window update of
// bytes that it hands out then.
const rearm = 8

// stale reports whether a deadline that is set must be set again to wait until
// end. To set one costs a timer: one that comes too early is left, and the wait
// begins again when it has passed.
func stale(set, end, now time.Time, patience time.Duration) bool {
	return set.After(end) || set.Sub(now) < patience/rearm
}

// timedReader is a link's stream with a deadline for each read.
type timedReader struct{ l *link }

func (r timedReader) Read(p []byte) (int, error) {
	l, now := r.l, time.Now()
	end := l.readEnd(now)
	for end.After(now) {
		if stale(l.readBy, end, now, l.reading.patience) {
			if err := l.stream.SetReadDeadline(end); err != nil {
				return 0, err
			}
			l.readBy = end
		}
		n, err := l.stream.Read(p)
		l.reading.earn(n)
		switch {
		case !isTimeout(err):
			return n, err
		case n > 0: // the deadline passed as the bytes came: they are what counts
			return n, nil
		}
		now = time.Now()
	}
	return 0, deadlineError{}
}

// readEnd is until when the next read may wait: inside a frame as long as the
// peer keeps its pace, between frames until the session is idle, before HELLO
// until the end of the handshake.
func (l *link) readEnd(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return l.helloEnd
	}
	if l.in.Buffered() > 0 {
		return l.reading.until(now)
	}
	return l.lastActive.Add(l.idleAfter)
}

// next returns the next frame, or why the session ends.
func (l *link) next() (oap.Frame, error) {
	l.reading.rest()
	for {
		f, err := l.in.Next()
		switch {
		case err == nil:
			return f, nil
		case err == io.EOF: //nolint:errorlint // a wrapped EOF is a stream that failed
			return f, errEnded
		case !isTimeout(err):
			return f, l.svc.m.reject(err)
		}
		if err := l.stalled(time.Now()); err != nil {
			return oap.Frame{}, err
		}
	}
}

// stalled says what a passed read deadline means; nil: read on.
func (l *link) stalled(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, cfg := l.svc.m, &l.svc.cfg
	switch {
	case !l.ready:
		m.handshakes.Inc()
		return status.Errorf(status.Timeout, "session: no HELLO within %s", cfg.HandshakeTimeout)
	case l.in.Buffered() > 0:
		m.timeouts.WithLabelValues("read").Inc()
		return status.Errorf(status.Timeout, "session: read: the peer stopped inside a frame, or sends it slower than %s/s", cfg.MinRate)
	case now.Before(l.lastActive.Add(l.idleAfter)):
		return nil
	case l.waiting():
		m.timeouts.WithLabelValues("read").Inc()
		return status.Errorf(status.Timeout, "session: read: the peer has not answered for %s", l.idleAfter)
	}
	l.shut = true
	return errIdle
}

// waiting reports whether anything but pings is in flight or unwritten. The
// caller holds l.mu.
func (l *link) waiting() bool {
	for _, x := range l.flight {
		if !x.ping {
			return true
		}
	}
	return l.owed > 0
}

// writePiece bounds one write under one deadline, so that what a slow peer took
// is seen before the next.
const writePiece = 64 << 10

// timedWriter is a link's stream, written at the pace at which the peer must
// take what is there for it.
type timedWriter struct{ l *link }

func (w timedWriter) Write(p []byte) (n int, err error) {
	l, pace := w.l, &w.l.writing
	for len(p) > 0 {
		now := time.Now()
		end := pace.until(now)
		if !end.After(now) {
			return n, deadlineError{}
		}
		if stale(l.writeBy, end, now, pace.patience) {
			if err := l.stream.SetWriteDeadline(end); err != nil {
				return n, err
			}
			l.writeBy = end
		}
		m, err := l.stream.Write(p[:min(len(p), writePiece)])
		pace.earn(m)
		n, p = n+m, p[m:]
		if err != nil && !isTimeout(err) {
			return n, err
		}
	}
	return n, nil
}
