package b3

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"allium/protocols/status"
)

// groupBuffers holds *[GroupSize]byte between reads. A buffer is owned by one
// read or one Section at a time.
var groupBuffers = sync.Pool{New: func() any { return new([GroupSize]byte) }}

// Reader reads an object from a Source and returns only bytes that it proved.
// It is safe for concurrent use if its Source is.
//
// The Source stays behind a named field, here and in [Section]: a reader that
// embedded a file would let sendfile pass its bytes by.
type Reader struct {
	root  Root
	size  int64
	src   Source
	queue *HashQueue             // nil: none
	last  atomic.Pointer[cursor] // parked between calls, for its proved path

	// tops is nil until reads have proved more parents of the upper levels than
	// there are, so some of them again: one pass over the object needs none.
	tops  atomic.Pointer[tops]
	proof atomic.Int64 // parents of the upper levels that were read while tops is nil

	// proved is the whole object when it lies in RAM, proved and never to
	// change; nil otherwise. Only NewMemory makes such bytes.
	proved []byte
}

// cursor is a walk that jumps, with the room that a parent is read into.
type cursor struct {
	walk Walk
	pair [ParentSize]byte
}

// cursors holds cursors that no Reader parks.
var cursors = sync.Pool{New: func() any { return new(cursor) }}

// NewReader returns a Reader of the object root, of size bytes, in src. The size
// is a claim like the bytes: reads of the last group fail when it is false. Its
// groups pass no [HashQueue].
func NewReader(root Root, size int64, src Source) *Reader {
	return (*HashQueue)(nil).Reader(root, size, src)
}

// Root is the object's address.
func (r *Reader) Root() Root { return r.root }

// Size is the size that the Reader was given.
func (r *Reader) Size() int64 { return r.size }

// Walk returns the walk over ranges of the object, as [NewWalk] does.
func (r *Reader) Walk(ranges []Range) (*Walk, error) { return r.queue.Walk(r.root, r.size, ranges) }

// SizeProof returns the walk that proves the size and no more, as [NewSizeProof]
// does.
func (r *Reader) SizeProof() (*Walk, error) { return r.queue.SizeProof(r.root, r.size) }

// Fill is [Walk.Fill] from what the Reader reads.
func (r *Reader) Fill(w *Walk, buf []byte) (Proved, error) { return w.Fill(r.src, buf) }

// ReadGroup reads and proves group g. The result is the front of buf, whose
// capacity must do for the group; GroupSize always does. Parents that the
// previous read proved are not read again. An error that wraps ErrCorrupt says
// that the stored bytes are damaged.
func (r *Reader) ReadGroup(g int64, buf []byte) ([]byte, error) {
	if g < 0 || g >= Groups(r.size) || !validSize(r.size) {
		return nil, status.Errorf(status.BadRange, "b3: %s has no group %d", r.root, g)
	}
	if r.proved != nil {
		return buf[:copy(buf[:cap(buf)], groupOf(r.proved, g))], nil
	}
	c := r.cursor()
	c.walk.seek(g)
	p, kept, err := r.fillGroup(&c.walk, &c.pair, buf[:cap(buf)])
	if err != nil {
		return nil, err
	}
	if kept {
		c.walk.path = c.walk.path[:0] // so that what it holds goes into the tops
	}
	r.park(c)
	return p.Data(), nil
}

// fillGroup fills walk up to its next group, with that in buf and the parents
// before it in pair, but for those of the upper levels that were proved before.
// kept reports that they will be from here on.
func (r *Reader) fillGroup(walk *Walk, pair *[ParentSize]byte, buf []byte) (p Proved, kept bool, err error) {
	t := r.tops.Load()
	for read := 0; ; {
		item, _ := walk.Next()
		if !item.Parent {
			p, err = walk.Fill(r.src, buf)
			return p, err == nil && t == nil && read > 0 && r.keep(read), err
		}
		slot, top := 0, len(walk.path) < topLevels
		if top && t != nil {
			slot = walk.slot()
			if cvs := t.get(slot); cvs != nil {
				walk.assume(cvs)
				continue
			}
		}
		if _, err = walk.Fill(r.src, pair[:]); err != nil {
			return p, false, err
		}
		if top {
			read++
			if t != nil {
				t.put(slot, pair)
			}
		}
	}
}

// cursor returns the parked cursor, or one that starts at the root.
func (r *Reader) cursor() *cursor {
	c := r.last.Swap(nil)
	if c == nil { // a concurrent call has it
		c = cursors.Get().(*cursor)
		c.walk = Walk{root: r.root, size: r.size, groups: Groups(r.size), path: c.walk.path[:0], queue: r.queue}
	}
	return c
}

// park keeps c for the next call.
func (r *Reader) park(c *cursor) {
	if old := r.last.Swap(c); old != nil {
		cursors.Put(old)
	}
}

// keep counts parents of the upper levels that a call read, and makes the tops
// once it pays. It reports whether it did.
func (r *Reader) keep(read int) bool {
	slots := topSlots(Groups(r.size))
	if r.proof.Add(int64(read)) < int64(slots) || r.tops.Load() != nil {
		return false
	}
	return r.tops.CompareAndSwap(nil, &tops{slots: make([]topSlot, slots)})
}

// ReadAt implements [io.ReaderAt]: p[:n] is proved, and when an error cuts the
// read short the rest of p holds nothing of the object.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, status.Errorf(status.BadRange, "b3: read %s at %d", r.root, off)
	}
	if r.proved != nil && off < r.size {
		n = copy(p, r.proved[off:])
		off += int64(n)
	}
	for n < len(p) && off < r.size {
		g, skip := off/GroupSize, int(off%GroupSize)
		size := groupLen(r.size, g)
		var got int
		if skip == 0 && len(p)-n >= size {
			_, err = r.ReadGroup(g, p[n:n+size:n+size])
			got = size
		} else {
			got, err = r.readPart(p[n:], g, skip)
		}
		if err != nil {
			clear(p[n:])
			return n, fmt.Errorf("b3: read at %d: %w", off, err)
		}
		n += got
		off += int64(got)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readPart copies group g from skip on into p.
func (r *Reader) readPart(p []byte, g int64, skip int) (int, error) {
	buf := groupBuffers.Get().(*[GroupSize]byte)
	defer groupBuffers.Put(buf)
	data, err := r.ReadGroup(g, buf[:])
	if err != nil {
		return 0, err
	}
	return copy(p, data[skip:]), nil
}
