package oap

import (
	"fmt"
	"io"
)

// Writer writes frames to a stream, one at a time or several together. It is not safe for concurrent
// use: exactly one goroutine writes to a stream (SPEC.md §5).
type Writer struct {
	w        io.Writer
	maxFrame uint32
	buf      buffer
	n        int // bytes added and not yet flushed
}

// NewWriter returns a writer that refuses frames above maxFrame bytes (header
// included, at most MaxFrame).
func NewWriter(w io.Writer, maxFrame uint32) *Writer {
	return &Writer{w: w, maxFrame: min(maxFrame, MaxFrame)}
}

// Write sends f, after the frames added before it, in one Write call of the stream. It sets Len, Ver
// and CapLen. A frame that a reader would refuse is not sent: the
// error is a *DecodeError. After any other error the stream is in an unknown
// state and can only be reset.
func (w *Writer) Write(f Frame) error {
	if err := w.Add(f); err != nil {
		return err
	}
	return w.Flush()
}

// Add appends f to the frames that the next Flush sends. A frame that a reader would refuse is not
// added: the error is a *DecodeError. The caller bounds what it adds: one frame may have MaxFrame
// bytes, several frames at most 64 KiB together.
func (w *Writer) Add(f Frame) error {
	n, err := f.seal(w.maxFrame)
	if err != nil {
		return err
	}
	if end := w.n + n; len(w.buf.b) < end {
		w.buf.grow(end, w.buf.b[:w.n])
	}
	p := w.buf.b[w.n : w.n+n]
	f.put(p)
	copy(p[HeaderSize:], f.Cap)
	copy(p[HeaderSize+len(f.Cap):], f.Payload)
	w.n += n
	return nil
}

// Flush sends the added frames in one Write call of the stream. After an error the stream is in an
// unknown state and can only be reset.
func (w *Writer) Flush() error {
	if w.n == 0 {
		return nil
	}
	err := w.write(w.buf.b[:w.n])
	w.buf.release()
	w.n = 0
	return err
}

// WriteBuilder sends the frame in b in one Write call of the stream. Frames that were added
// must be flushed before. A frame of a request without START carries what a put streams and may be as
// long as any other (SPEC.md §13.8). Its errors are those of Write.
func (w *Writer) WriteBuilder(b *Builder) error {
	h := b.header
	h.Len, h.Ver, h.CapLen = uint32(b.n), Version, 0
	if err := h.check(w.maxFrame, true); err != nil {
		return err
	}
	b.Next(0) // an empty payload may have no buffer yet
	p := b.buf.b[:b.n]
	h.put(p)
	return w.write(p)
}

func (w *Writer) write(p []byte) error {
	n, err := w.w.Write(p)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// seal sets Len, Ver and CapLen, checks the header and returns the length of the frame in bytes.
func (f *Frame) seal(maxFrame uint32) (int, error) {
	if len(f.Cap) > MaxCap {
		return 0, refuse(ReasonFrameOversize, "capability of %d bytes, at most %d", len(f.Cap), MaxCap)
	}
	if len(f.Payload) > MaxFrame {
		return 0, refuse(ReasonFrameOversize, "payload of %d bytes, max_frame %d", len(f.Payload), maxFrame)
	}
	n := HeaderSize + len(f.Cap) + len(f.Payload)
	f.Len, f.Ver, f.CapLen = uint32(n), Version, uint16(len(f.Cap))
	if err := f.check(maxFrame, false); err != nil {
		return 0, fmt.Errorf("cannot send frame: %w", err)
	}
	return n, nil
}
