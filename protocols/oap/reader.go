package oap

import (
	"errors"
	"io"
)

// Reader reads frames from a stream. It is not safe for concurrent use.
//
// Invariant: buf.b[start:end] holds the bytes that were read and not yet returned.
type Reader struct {
	r          io.Reader
	maxFrame   uint32
	check      func(Header) error // nil: none
	items      bool               // see SetItems
	memory     Memory             // nil: none
	buf        buffer
	start, end int
	full       bool // the last read filled the buffer, so the stream likely has more
}

// Memory accounts for the bytes of a reader's buffer beyond the first 512, which every reader may
// use. It is called from the reader's goroutine.
type Memory interface {
	// Grow takes n more bytes, and may wait for them. Next returns its error.
	Grow(n int) error
	// Shrink returns n bytes.
	Shrink(n int)
}

// NewReader returns a reader that refuses frames above maxFrame bytes (header
// included, at most MaxFrame).
func NewReader(r io.Reader, maxFrame uint32) *Reader {
	return &Reader{r: r, maxFrame: min(maxFrame, MaxFrame)}
}

// SetMaxFrame changes the limit from the next frame on.
func (r *Reader) SetMaxFrame(n uint32) { r.maxFrame = min(n, MaxFrame) }

// SetItems says whether the frames from the next one on carry what a put streams. Then a frame of a
// request without START may be as long as any other (SPEC.md §13.8).
func (r *Reader) SetItems(items bool) { r.items = items }

// SetCheck makes the reader call check with each valid header, before it reads the rest of the
// frame. Next returns the error of check.
func (r *Reader) SetCheck(check func(Header) error) { r.check = check }

// SetMemory makes the reader account for its buffer in m. It must be called before the first Next.
func (r *Reader) SetMemory(m Memory) { r.memory = m }

// Release returns the buffer to the pool. Bytes that Next has not yet returned are lost, and the last
// frame is no longer valid.
func (r *Reader) Release() {
	r.start, r.end, r.full = 0, 0, false
	r.drop()
}

// Buffered returns the number of bytes that were read from the stream and not yet returned as a
// frame. If it is above 0 while Next waits, part of a frame has arrived.
func (r *Reader) Buffered() int { return r.end - r.start }

// Next returns the next frame. Its Cap and Payload are valid until the next call.
//
//   - If the stream ends between frames, the error is io.EOF.
//   - A refused frame is a *DecodeError. The reader cannot go on after it.
//   - An error of the check or of the [Memory] is returned as it is.
//   - Any other error is the stream's own. Next may be called again after it: a read deadline, for
//     example, loses no bytes.
func (r *Reader) Next() (Frame, error) {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if !r.full {
			r.drop() // the stream is likely idle: hold no large buffer meanwhile
		}
	}
	if err := r.fill(HeaderSize); err != nil {
		return Frame{}, err
	}
	var f Frame
	f.parse(r.buf.b[r.start:])
	if err := f.check(r.maxFrame, r.items); err != nil {
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
	capEnd := HeaderSize + int(f.CapLen)
	f.Cap, f.Payload = p[HeaderSize:capEnd:capEnd], p[capEnd:len(p):len(p)]
	return f, nil
}

// maxEmptyReads is the number of reads in a row without bytes or an error at which a stream fails.
const maxEmptyReads = 100

// fill reads until at least n bytes are buffered.
func (r *Reader) fill(n int) error {
	empty := 0
	for r.end-r.start < n {
		if err := r.makeSpace(n); err != nil {
			return err
		}
		m, err := r.r.Read(r.buf.b[r.end:])
		if m < 0 || m > len(r.buf.b)-r.end {
			return errors.New("the stream's Read returned an impossible byte count")
		}
		r.end += m
		r.full = r.end == len(r.buf.b)
		switch {
		case r.end-r.start >= n: // the next read returns the error again, if there was one
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

// makeSpace makes space for at least one more byte of a frame of n bytes. A buffer that is full of
// one frame grows to the next size, so it is never many times larger than what the peer has sent. A
// tiny buffer also grows when the frame does not fit behind what was read. A tiny or small one also
// grows when a read has filled it.
func (r *Reader) makeSpace(n int) error {
	buffered, size := r.end-r.start, len(r.buf.b)
	switch {
	case size == 0:
		r.buf.grow(tinySize, nil)
	case size == tinySize && (r.full || r.start+n > size):
		return r.grow(smallSize)
	case size == smallSize && r.full:
		return r.grow(mediumSize)
	case buffered == size:
		return r.grow(min(n, size+1))
	case r.start > 0 && r.start+n > size:
		copy(r.buf.b, r.buf.b[r.start:r.end])
	default:
		return nil
	}
	r.start, r.end = 0, buffered
	return nil
}

// grow replaces the buffer with a larger one of at least n bytes, and accounts for the difference.
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

// drop returns the buffer to the pool and its bytes to the Memory.
func (r *Reader) drop() {
	size := len(r.buf.b)
	r.buf.release()
	if r.memory != nil && size > tinySize {
		r.memory.Shrink(size - tinySize)
	}
}
