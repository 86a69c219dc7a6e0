package session

import (
	"errors"
	"io"
	"time"

	"allium/internal/deadline"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// timedReader is a link's stream with a deadline for each read.
type timedReader struct{ l *link }

func (r timedReader) Read(p []byte) (int, error) {
	now := time.Now()
	return r.l.reading.ReadUntil(p, now, r.l.readEnd(now))
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
		return l.reading.Until(now)
	}
	return l.lastActive.Add(l.idleAfter)
}

// next returns the next frame, or why the session ends.
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
