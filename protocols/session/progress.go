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

// timedReader is a link's stream with a deadline for each read.
type timedReader struct{ l *link }

func (r timedReader) Read(p []byte) (int, error) {
	now := time.Now()
	end := r.l.readEnd(now)
	if !end.After(now) {
		return 0, deadlineError{}
	}
	if err := r.l.stream.SetReadDeadline(end); err != nil {
		return 0, err
	}
	return r.l.stream.Read(p)
}

// readEnd is until when the next read may wait: inside a frame for
// ReadTimeout, between frames until the session is idle, before HELLO until the
// end of the handshake.
func (l *link) readEnd(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return l.helloEnd
	}
	end := l.lastActive.Add(l.idleAfter)
	if inside := now.Add(l.svc.cfg.ReadTimeout); l.in.Buffered() > 0 && inside.Before(end) {
		end = inside
	}
	return end
}

// next returns the next frame, or why the session ends.
func (l *link) next() (oap.Frame, error) {
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
		return status.Errorf(status.Timeout, "session: read: the peer stopped inside a frame")
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

// writePiece bounds one write under one deadline, so that a slow stream that
// makes progress is not taken for one that stands still.
const writePiece = 64 << 10

// timedWriter is a link's stream with a deadline for each piece of a frame. A
// write fails when a whole WriteTimeout brought nothing: between one and two of
// them after the last byte.
type timedWriter struct{ l *link }

func (w timedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if err := w.l.stream.SetWriteDeadline(time.Now().Add(w.l.svc.cfg.WriteTimeout)); err != nil {
			return n, err
		}
		m, err := w.l.stream.Write(p[:min(len(p), writePiece)])
		n, p = n+m, p[m:]
		if err != nil && (m == 0 || !isTimeout(err)) {
			return n, err
		}
	}
	return n, nil
}
