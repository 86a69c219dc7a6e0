package oap

import (
	"errors"
	"io"
)

// Reader reads frames from a stream. It is not safe for concurrent use.
//
// Invariant: buf.b[start:end] are the bytes read and not yet returned.
type Reader struct {
	r          io.Reader
	maxFrame   uint32
	check      func(Header) error // nil: none
	memory     Memory             // nil: none
	buf        buffer
	start, end int
	full       bool // the last read filled the buffer: more is likely waiting
}

// Memory accounts for the bytes of a reader's buffer, but for the 512 that every
// reader may have. It is called from the reader's goroutine.
type Memory interface {
	// Grow takes n more bytes, and may wait for them. Its error is what Next
	// returns.
	Grow(n int) error
	// Shrink gives n bytes back.
	Shrink(n int)
}

// NewReader returns a reader that refuses frames above maxFrame bytes (header
// included, at most MaxFrame).
func NewReader(r io.Reader, maxFrame uint32) *Reader {
	return &Reader{r: r, maxFrame: min(maxFrame, MaxFrame)}
}

// SetMaxFrame changes the limit from the next frame on.
func (r *Reader) SetMaxFrame(n uint32) { r.maxFrame = min(n, MaxFrame) }

// SetCheck makes the reader ask check of each header that is well-formed, before
// it reads the rest of the frame. An error of check is what Next returns.
func (r *Reader) SetCheck(check func(Header) error) { r.check = check }

// SetMemory makes the reader take the bytes of its buffer from m, before the
// first Next.
func (r *Reader) SetMemory(m Memory) { r.memory = m }

// Release gives the buffer back. Frames and bytes that were read are lost.
func (r *Reader) Release() {
	r.start, r.end, r.full = 0, 0, false
	r.drop()
}

// Buffered is the number of bytes read from the stream and not yet returned as
// a frame. Above 0 while Next waits, it waits inside a frame.
func (r *Reader) Buffered() int { return r.end - r.start }

// Next returns the next frame. Its Cap and Payload are valid until the next
// call. At the end of the stream between frames the error is io.EOF; a refused
// frame is a *DecodeError and final; any other error is the stream's own, and
// Next may be called again after it (a read deadline loses nothing).
func (r *Reader) Next() (Frame, error) {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if !r.full {
			r.drop() // the stream pauses: hold nothing for it
		}
	}
	if err := r.fill(HeaderSize); err != nil {
		return Frame{}, err
	}
	var f Frame
	f.parse(r.buf.b[r.start:])
	if err := f.check(r.maxFrame); err != nil {
		return Frame{}, err
	}
	if r.check != nil {
		if err := r.check(f.Header); err != nil {
			return Frame{}, err
		}
	}
	if err := r.fill(int(f.Len)); err != nil {
		return Frame{}, err
	}
	p := r.buf.b[r.start : r.start+int(f.Len)]
	r.start += int(f.Len)
	body := HeaderSize + int(f.CapLen)
	f.Cap, f.Payload = p[HeaderSize:body:body], p[body:len(p):len(p)]
	return f, nil
}

// maxEmptyReads is how often a stream may return nothing and no error.
const maxEmptyReads = 100

// fill reads until n bytes are buffered.
func (r *Reader) fill(n int) error {
	empty := 0
	for r.end-r.start < n {
		if err := r.room(n); err != nil {
			return err
		}
		m, err := r.r.Read(r.buf.b[r.end:])
		if m < 0 || m > len(r.buf.b)-r.end {
			return errors.New("oap: the stream returned an impossible count")
		}
		r.end += m
		r.full = r.end == len(r.buf.b)
		switch {
		case r.end-r.start >= n: // an error, if any, comes back with the next read
		case err == io.EOF:
			if r.end == r.start {
				return io.EOF
			}
			return refuse(ReasonTruncated, "%d of %d bytes", r.end-r.start, n)
		case err != nil:
			return err
		case m > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				return io.ErrNoProgress
			}
		}
	}
	return nil
}

// room makes room for at least one more byte of a frame of n. A buffer grows
// to the next size when what was read fills it, so that it is never many times
// what the peer has sent; a tiny or small one also when the stream delivers faster
// than it holds.
func (r *Reader) room(n int) error {
	held, size := r.end-r.start, len(r.buf.b)
	switch {
	case size == 0:
		r.buf.grow(tinySize, nil)
	case size == tinySize && (r.full || r.start+n > size):
		return r.grow(smallSize)
	case size == smallSize && r.full:
		return r.grow(mediumSize)
	case held == size:
		return r.grow(min(n, size+1))
	case r.start > 0 && r.start+n > size:
		copy(r.buf.b, r.buf.b[r.start:r.end])
	default:
		return nil
	}
	r.start, r.end = 0, held
	return nil
}

// grow replaces the buffer with one of at least n bytes that are accounted for.
func (r *Reader) grow(n int) error {
	if more := sizeFor(n) - max(len(r.buf.b), tinySize); r.memory != nil && more > 0 {
		if err := r.memory.Grow(more); err != nil {
			return err
		}
	}
	r.buf.grow(n, r.buf.b[r.start:r.end])
	r.start, r.end = 0, r.end-r.start
	return nil
}

// drop gives the buffer and its bytes back.
func (r *Reader) drop() {
	size := len(r.buf.b)
	r.buf.release()
	if r.memory != nil && size > tinySize {
		r.memory.Shrink(size - tinySize)
	}
}
