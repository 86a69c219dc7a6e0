package bao

import (
	"encoding/binary"
	"io"
	"sync"

	"allium/protocols/b3"
)

// MediaType is the media type of an encoding.
const MediaType = "application/vnd.allium.bao"

// headerSize is the length in bytes of the size at the front.
const headerSize = 8

// maxDepth is the most parents above a group of an object of b3.MaxSize.
const maxDepth = 62 - 16

// maxWrite is the longest write of an Encoder in bytes: the size, the parents
// before a group, and the group.
const maxWrite = headerSize + maxDepth*b3.ParentSize + b3.GroupSize

var writeBuffers = sync.Pool{New: func() any { return new([maxWrite]byte) }}

// Len returns the length in bytes of the encoding of range r of an object of size
// bytes. The error is bad_range for a malformed range and upstream for a size
// that no object has.
func Len(size int64, r b3.Range) (int64, error) {
	n, err := b3.WalkLen(size, []b3.Range{openEnded(r, size)})
	return headerSize + n, err
}

// Encoder writes the encoding of a range of one object.
type Encoder struct {
	walk *b3.Walk
	from *b3.Reader
}

// NewEncoder returns an Encoder of range r of the object that from reads. Errors
// are those of [Len]. The Encoder verifies the size and the bytes of from.
func NewEncoder(from *b3.Reader, r b3.Range) (*Encoder, error) {
	walk, err := from.Walk([]b3.Range{openEnded(r, from.Size())})
	if err != nil {
		return nil, err
	}
	return &Encoder{walk: walk, from: from}, nil
}

// WriteTo implements [io.WriterTo]. Each write ends with a group and holds only
// verified items. w must not retain the bytes. WriteTo returns an error of w
// unchanged; wrong bytes of the source wrap b3.ErrCorrupt. Call it once.
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

// openEnded changes the range [0, size) to [0, −1]. For the empty object the first
// has no group, and the second has the object's one empty group.
func openEnded(r b3.Range, size int64) b3.Range {
	if r == (b3.Range{End: size}) {
		r.End = -1
	}
	return r
}
