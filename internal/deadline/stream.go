package deadline

import (
	"io"
	"time"
)

// Reading is the half of a stream that a [Reader] reads.
type Reading interface {
	io.Reader
	SetReadDeadline(t time.Time) error
}

// Reader reads a stream with deadlines. Only one goroutine at a time may use it.
type Reader struct {
	MinRate
	st  Reading
	set time.Time // the deadline of the stream
}

// NewReader returns a reader of st, which has no deadline yet.
func NewReader(st Reading, p MinRate) Reader { return Reader{MinRate: p, st: st} }

// ReadUntil reads up to len(p) bytes and calls Earn for them. It waits for the first
// byte until end, and then returns ErrPassed. now is the present time.
func (r *Reader) ReadUntil(p []byte, now, end time.Time) (int, error) {
	for end.After(now) {
		if r.stale(r.set, end, now) {
			if err := r.st.SetReadDeadline(end); err != nil {
				return 0, err
			}
			r.set = end
		}
		n, err := r.st.Read(p)
		r.Earn(n)
		if err == nil {
			return n, nil
		}
		now = time.Now()
		switch {
		case !expired(err, r.set, now):
			return n, err
		case n > 0: // bytes arrived as the deadline passed
			return n, nil
		}
	}
	return 0, ErrPassed
}

// Writing is the half of a stream that a [Writer] writes.
type Writing interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
}

// Piece is the most bytes that are written under one deadline, so that the progress of
// a slow peer is seen between pieces. It is what yamux puts into one message.
const Piece = 64<<10 - 12

// Writer writes a stream with deadlines. Only one goroutine at a time may use it.
type Writer struct {
	MinRate
	st  Writing
	set time.Time // the deadline of the stream
}

// NewWriter returns a writer of st, which has no deadline yet.
func NewWriter(st Writing, p MinRate) Writer { return Writer{MinRate: p, st: st} }

// Write implements [io.Writer]. It returns ErrPassed if the peer was too slow. The
// clock goes on afterwards.
func (w *Writer) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		now := time.Now()
		end := w.Until(now)
		if !end.After(now) {
			return n, ErrPassed
		}
		if w.stale(w.set, end, now) {
			if err := w.st.SetWriteDeadline(end); err != nil {
				return n, err
			}
			w.set = end
		}
		m, err := w.st.Write(p[:min(len(p), Piece)])
		w.Earn(m)
		n, p = n+m, p[m:]
		switch {
		case err != nil && !expired(err, w.set, time.Now()):
			return n, err
		case err == nil && m == 0:
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}
