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

// Reader reads a stream, each time until an end. It belongs to the stream's one
// reader.
type Reader struct {
	MinRate
	st  Reading
	set time.Time // the deadline of the stream
}

// NewReader returns the reader of a stream without a deadline.
func NewReader(st Reading, p MinRate) Reader { return Reader{MinRate: p, st: st} }

// ReadUntil reads what there is, waiting for it until end; then ErrPassed. now
// is the time. The bytes are earned.
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
		case n > 0: // the deadline passed as the bytes came: they are what counts
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

// Piece bounds what is written under one deadline, in bytes, so that what a slow
// peer took is seen before the next. It is what yamux puts into one message.
const Piece = 64<<10 - 12

// Writer writes a stream at the pace at which the peer must take what is there
// for it. It belongs to the stream's one writer.
type Writer struct {
	MinRate
	st  Writing
	set time.Time // the deadline of the stream
}

// NewWriter returns the writer of a stream without a deadline.
func NewWriter(st Writing, p MinRate) Writer { return Writer{MinRate: p, st: st} }

// Write implements [io.Writer]. The error is ErrPassed when the peer was too
// slow. The clock runs on afterwards.
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
