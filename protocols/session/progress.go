package session

import (
	"errors"
	"io"
	"time"

	"allium/internal/deadline"
	"allium/internal/env"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// deadlineReader reads a link's stream with a deadline for each read.
type deadlineReader struct{ l *link }

func (r deadlineReader) Read(p []byte) (int, error) {
	now := time.Now()
	return r.l.reading.ReadUntil(p, now, r.l.readEnd(now))
}

// readEnd returns the deadline of the next read. Within a frame it follows
// ReadTimeout and MinRate. Between frames it is the idle time. Before HELLO it is the
// end of the handshake.
func (l *link) readEnd(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return l.helloEnd
	}
	if l.in.Buffered() > 0 {
		return l.reading.Until(now)
	}
	return l.lastActive.Add(idleAfter(l))
}

// next returns the next frame, or the reason why the session ends.
func (l *link) next() (oap.Frame, error) {
	l.reading.Rest()
	for {
		f, err := l.in.Next()
		switch {
		case err == nil:
			return f, nil
		case err == io.EOF: //nolint:errorlint // a wrapped EOF is a stream that failed
			return f, errEnded
		case !errors.Is(err, deadline.ErrPassed):
			return f, l.svc.m.reject(err)
		}
		if err := l.readTimedOut(time.Now()); err != nil {
			return oap.Frame{}, err
		}
	}
}

// readTimedOut returns the error for a read deadline that passed. It returns nil if the
// session was active meanwhile and may read on.
func (l *link) readTimedOut(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, cfg := l.svc.m, l.cfg
	switch {
	case !l.ready:
		m.handshakes.Inc()
		return status.Errorf(status.Timeout, "the peer sent no HELLO within %s", cfg.HandshakeTimeout)
	case l.in.Buffered() > 0:
		m.timeouts.WithLabelValues(env.TimeoutSessionRead).Inc()
		return status.Errorf(status.Timeout, "read: the peer stopped within a frame, or sends it slower than %s/s",
			cfg.MinRate)
	case now.Before(l.lastActive.Add(idleAfter(l))):
		return nil
	case l.waiting():
		m.timeouts.WithLabelValues(env.TimeoutSessionRead).Inc()
		return status.Errorf(status.Timeout, "read: the peer has not answered for %s", idleAfter(l))
	}
	l.shut = true
	return errIdle
}

// waiting reports whether a request other than a ping is in flight, or an answer is
// unwritten. The caller holds l.mu.
func (l *link) waiting() bool {
	for _, x := range l.requests {
		if !x.ping {
			return true
		}
	}
	return l.unanswered > 0
}
