package bao

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// maxEmptyReads is the most reads in a row that may return no bytes.
const maxEmptyReads = 100

var groupBuffers = sync.Pool{New: func() any { return new([b3.GroupSize]byte) }}

// Decoder reads an encoding and returns the verified bytes of its range. It is not
// safe for concurrent use. The caller must call Close, which releases its buffer.
//
// If the encoding is altered, cut short, too long, or of another object or range,
// the error wraps b3.ErrCorrupt. An error of the reader other than io.EOF is
// wrapped without b3.ErrCorrupt. The bytes returned before it are verified, and a
// new request can continue at Offset.
type Decoder struct {
	root b3.Root
	r    b3.Range
	src  io.Reader

	walk *b3.Walk            // nil before the size is read
	off  int64               // position of the next byte to return
	end  int64               // position behind the last byte
	buf  *[b3.GroupSize]byte // nil before the first group and after Close
	rest []byte              // verified bytes of buf, not yet returned
	err  error
}

var errClosed = errors.New("the decoder is closed")

// NewDecoder returns a Decoder of the encoding in src of range r of the object
// root. r is the range of the request. A Start below 0, which needs End −1,
// counts from the object's end. The claimed size then decides the place, so use
// such bytes only after SizeProved reports true. NewDecoder reads nothing.
func NewDecoder(root b3.Root, r b3.Range, src io.Reader) *Decoder {
	return &Decoder{root: root, r: r, src: src}
}

// Begin reads the size at the front and returns it; the size is a claim. The first
// read calls Begin if the caller did not.
func (d *Decoder) Begin() (size int64, err error) {
	if d.walk == nil && d.err == nil {
		d.err = d.begin()
	}
	if d.walk == nil {
		return 0, d.err
	}
	return d.walk.Size(), nil
}

// SizeProved reports whether the last group, and so the size, was verified.
func (d *Decoder) SizeProved() bool { return d.walk != nil && d.walk.SizeProved() }

// Offset returns the position in the object of the next byte that a read returns.
// It is valid after Begin succeeded.
func (d *Decoder) Offset() int64 { return d.off }

// Read implements [io.Reader]. It returns only verified bytes.
func (d *Decoder) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := d.fill(); err != nil {
		return 0, err
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	d.off += int64(n)
	return n, nil
}

// WriteTo implements [io.WriterTo] with one write per group. w must not retain the
// bytes.
func (d *Decoder) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if err := d.fill(); errors.Is(err, io.EOF) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(d.rest)
		d.rest = d.rest[n:]
		d.off += int64(n)
		total += int64(n)
		if err == nil && len(d.rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// Close releases the buffer. Later reads fail. Close may be called more than once
// and returns nil.
func (d *Decoder) Close() error {
	if d.buf != nil {
		groupBuffers.Put(d.buf)
		d.buf, d.rest = nil, nil
	}
	d.err = errClosed
	return nil
}

// begin reads the size and makes the walk.
func (d *Decoder) begin() error {
	var header [headerSize]byte
	if err := d.readFull(header[:], "its size"); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(header[:])
	if size > b3.MaxSize {
		return d.corrupt("it claims %d bytes, more than any object has", size)
	}
	r, err := d.resolveRange(int64(size))
	if err != nil {
		return err
	}
	d.off, d.end = r.Start, r.End
	if r.End == -1 {
		d.end = int64(size)
	}
	d.walk, err = b3.NewWalk(d.root, int64(size), []b3.Range{r})
	return err
}

// resolveRange returns the requested range in an object of size bytes. A claimed
// size that leaves no byte of the range is corrupt: its walk would prove nothing.
func (d *Decoder) resolveRange(size int64) (b3.Range, error) {
	r := d.r
	if r.Start < 0 {
		if r.End != -1 {
			return r, status.Errorf(status.BadRange,
				"[%d, %d] is not a range: with a start that counts from the end, the end must be −1", r.Start, r.End)
		}
		r.Start = max(0, size+r.Start)
	}
	if r.End > size {
		r.End = size
	}
	if r.Start > 0 && r.Start >= size || r.End >= 0 && r.Start > r.End {
		return r, d.corrupt("it claims %d bytes, and the requested range starts at byte %d", size, r.Start)
	}
	return openEnded(r, size), nil
}

// fill makes rest non-empty, or returns why it cannot: io.EOF at the end.
func (d *Decoder) fill() error {
	if len(d.rest) > 0 {
		return nil
	}
	if _, err := d.Begin(); err != nil {
		return err
	}
	for d.err == nil && len(d.rest) == 0 {
		d.err = d.readItem()
	}
	if len(d.rest) > 0 {
		return nil
	}
	return d.err
}

// readItem reads and verifies one item. It sets rest to a group's bytes.
func (d *Decoder) readItem() error {
	item, more := d.walk.Next()
	if !more {
		return d.checkEnd()
	}
	if item.Parent {
		var pair [b3.ParentSize]byte
		if err := d.readFull(pair[:], item.String()); err != nil {
			return err
		}
		_, err := d.walk.Accept(pair[:])
		return err
	}
	if d.buf == nil {
		d.buf = groupBuffers.Get().(*[b3.GroupSize]byte)
	}
	if err := d.readFull(d.buf[:item.Len], item.String()); err != nil {
		return err
	}
	p, err := d.walk.Accept(d.buf[:item.Len])
	if err != nil {
		return err
	}
	from := max(d.off-p.Offset(), 0)
	d.rest = p.Data()[from:max(from, min(d.end-p.Offset(), int64(item.Len)))]
	return nil
}

// checkEnd returns io.EOF if the encoding ends here.
func (d *Decoder) checkEnd() error {
	var one [1]byte
	for range maxEmptyReads {
		switch n, err := d.src.Read(one[:]); {
		case n > 0:
			return d.corrupt("more bytes follow its last item")
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return d.readError(err)
		}
	}
	return d.readError(io.ErrNoProgress)
}

// readFull fills p. io.EOF before p is full is corrupt; any other error is the
// reader's own, such as a cut connection. what names p in errors.
func (d *Decoder) readFull(p []byte, what string) error {
	emptyReads := 0
	for len(p) > 0 {
		n, err := d.src.Read(p)
		p = p[n:]
		switch {
		case len(p) == 0:
			return nil
		case err == io.EOF: // an error that wraps io.EOF is no regular end
			return d.corrupt("it ends within %s", what)
		case err != nil:
			return d.readError(err)
		case n > 0:
			emptyReads = 0
		default:
			if emptyReads++; emptyReads == maxEmptyReads {
				return d.readError(io.ErrNoProgress)
			}
		}
	}
	return nil
}

func (d *Decoder) readError(err error) error {
	return fmt.Errorf("read the encoding of %s: %w", d.root, err)
}

func (d *Decoder) corrupt(format string, args ...any) error {
	return fmt.Errorf("verify the encoding of %s: %s: %w", d.root, fmt.Sprintf(format, args...), b3.ErrCorrupt)
}
