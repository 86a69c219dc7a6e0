package bao

import (
	"encoding/binary"
	"io"
	"sync"

	"allium/protocols/b3"
)

// MediaType is the media type of an encoding.
const MediaType = "application/vnd.allium.bao"

// headerSize is the length of the size at the front.
const headerSize = 8

// maxDepth is the most parents above a group of an object of b3.MaxSize.
const maxDepth = 62 - 16

// maxWrite is the longest write of an Encoder: a group with the parents before
// it, and the size.
const maxWrite = headerSize + maxDepth*b3.ParentSize + b3.GroupSize

var writeBuffers = sync.Pool{New: func() any { return new([maxWrite]byte) }}

// Len is the length in bytes of the encoding of r of an object of size bytes. A
// malformed range is bad_range, an impossible size upstream.
func Len(size int64, r b3.Range) (int64, error) {
	n, err := b3.WalkLen(size, []b3.Range{whole(r, size)})
	return headerSize + n, err
}

// Encoder writes the encoding of a range of one object.
type Encoder struct {
	walk *b3.Walk
	from *b3.Reader
}

// NewEncoder returns the Encoder of r of the object that from reads. Errors are
// those of [Len]. Neither the size nor the bytes that from reads are trusted.
func NewEncoder(from *b3.Reader, r b3.Range) (*Encoder, error) {
	walk, err := from.Walk([]b3.Range{whole(r, from.Size())})
	if err != nil {
		return nil, err
	}
	return &Encoder{walk: walk, from: from}, nil
}

// WriteTo implements [io.WriterTo]: each write ends with a group, and everything
// in it was proved before. w does not keep it. Errors of w are returned as they
// are; what src holds that is wrong wraps b3.ErrCorrupt. It is called once.
func (e *Encoder) WriteTo(w io.Writer) (total int64, err error) {
	buf := writeBuffers.Get().(*[maxWrite]byte)
	defer writeBuffers.Put(buf)
	binary.LittleEndian.PutUint64(buf[:], uint64(e.walk.Size()))
	for filled := headerSize; ; {
		item, more := e.walk.Next()
		if more {
			if _, err := e.from.Fill(e.walk, buf[filled:]); err != nil {
				return total, err
			}
			filled += item.Len
		}
		if item.Parent {
			continue
		}
		if filled > 0 {
			n, err := w.Write(buf[:filled])
			total += int64(n)
			if err == nil && n < filled {
				err = io.ErrShortWrite
			}
			if err != nil {
				return total, err
			}
		}
		if !more {
			return total, nil
		}
		filled = 0
	}
}

// whole makes the range that has all bytes of an object the one that has its
// last group too: of the empty object that is a group without bytes.
func whole(r b3.Range, size int64) b3.Range {
	if r == (b3.Range{End: size}) {
		r.End = -1
	}
	return r
}
