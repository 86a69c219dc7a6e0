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

// maxIdleReads is how often a reader may return nothing, in a row.
const maxIdleReads = 100

var groupBuffers = sync.Pool{New: func() any { return new([b3.GroupSize]byte) }}

// Decoder reads an encoding and returns the bytes of its range, proved. It is
// not for concurrent use. Close gives its buffer back.
//
// An encoding that is altered, cut short, too long, or of another object or
// range wraps b3.ErrCorrupt. An error of the reader that is not io.EOF is
// wrapped as it is: what was returned until then is proved, and Offset is where
// to go on.
type Decoder struct {
	root b3.Root
	r    b3.Range
	src  io.Reader

	walk *b3.Walk // nil until the size was read
	off  int64    // of the next byte to return
	end  int64
	buf  *[b3.GroupSize]byte // nil before the first group and after Close
	rest []byte              // proved, of buf, not yet returned
	err  error
}

var errClosed = errors.New("bao: the decoder is closed")

// NewDecoder returns a Decoder of the encoding of r of the object root that src
// holds. r is what was asked for: a Start below 0, with End −1, counts from the
// end of the object, which is a claim: use such bytes when the size is proved.
// Nothing is read yet.
func NewDecoder(root b3.Root, r b3.Range, src io.Reader) *Decoder {
	return &Decoder{root: root, r: r, src: src}
}

// Begin reads the size at the front and returns what it claims. The first read
// does so too.
func (d *Decoder) Begin() (size int64, err error) {
	if d.walk == nil && d.err == nil {
		d.err = d.begin()
	}
	if d.walk == nil {
		return 0, d.err
	}
	return d.walk.Size(), nil
}

// SizeProved reports whether the last group was proved, and with it the size.
func (d *Decoder) SizeProved() bool { return d.walk != nil && d.walk.SizeProved() }

// Offset is where in the object the next byte is that a read returns, once Begin
// succeeded.
func (d *Decoder) Offset() int64 { return d.off }

// Read implements [io.Reader] over proved bytes.
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

// WriteTo implements [io.WriterTo]: one write for every group. w does not keep
// it.
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

// Close gives the buffer back; what was read of it is no longer good. It is
// idempotent and returns nil.
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
	r, err := d.within(int64(size))
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

// within is the range in an object of size bytes. A range that the claim leaves
// nothing of proves nothing, so it is no answer to one that was asked for.
func (d *Decoder) within(size int64) (b3.Range, error) {
	r := d.r
	if r.Start < 0 {
		if r.End != -1 {
			return r, status.Errorf(status.BadRange, "bao: [%d, %d] is not a range: a start that counts from the end has no end", r.Start, r.End)
		}
		r.Start = max(0, size+r.Start)
	}
	if r.End > size {
		r.End = size
	}
	if r.Start > 0 && r.Start >= size || r.End >= 0 && r.Start > r.End {
		return r, d.corrupt("it claims %d bytes, which leaves nothing of what was asked for from byte %d on", size, r.Start)
	}
	return whole(r, size), nil
}

// fill makes rest non-empty, or says why it cannot: io.EOF at the end.
func (d *Decoder) fill() error {
	if len(d.rest) > 0 {
		return nil
	}
	if _, err := d.Begin(); err != nil {
		return err
	}
	for d.err == nil && len(d.rest) == 0 {
		d.err = d.next()
	}
	if len(d.rest) > 0 {
		return nil
	}
	return d.err
}

// next reads one item.
func (d *Decoder) next() error {
	item, more := d.walk.Next()
	if !more {
		return d.ended()
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

// ended makes sure that nothing follows the last item.
func (d *Decoder) ended() error {
	var one [1]byte
	for range maxIdleReads {
		switch n, err := d.src.Read(one[:]); {
		case n > 0:
			return d.corrupt("more bytes follow its last item")
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return d.failed(err)
		}
	}
	return d.failed(io.ErrNoProgress)
}

// readFull reads what is missing of p. An encoding that ends before that is
// corrupt: the reader, not the encoding, has the word when a connection is cut.
func (d *Decoder) readFull(p []byte, what string) error {
	idle := 0
	for len(p) > 0 {
		n, err := d.src.Read(p)
		p = p[n:]
		switch {
		case len(p) == 0:
			return nil
		case err == io.EOF: // a wrapped one is a failure
			return d.corrupt("it ends within %s", what)
		case err != nil:
			return d.failed(err)
		case n > 0:
			idle = 0
		default:
			if idle++; idle == maxIdleReads {
				return d.failed(io.ErrNoProgress)
			}
		}
	}
	return nil
}

func (d *Decoder) failed(err error) error {
	return fmt.Errorf("bao: read the encoding of %s: %w", d.root, err)
}

func (d *Decoder) corrupt(format string, args ...any) error {
	return fmt.Errorf("bao: the encoding of %s: %s: %w", d.root, fmt.Sprintf(format, args...), b3.ErrCorrupt)
}
