package b3

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"allium/protocols/status"
)

// groupBuffers holds unused *[GroupSize]byte. One read or one Section owns a
// buffer at a time.
var groupBuffers = sync.Pool{New: func() any { return new([GroupSize]byte) }}

// Reader reads an object from a Source and returns only verified bytes. It is
// safe for concurrent use if its Source is.
//
// Reader and [Section] do not embed the Source: io.Copy could then use the file's
// own methods, and sendfile would bypass the verification.
type Reader struct {
	root       Root
	size       int64
	src        Source
	queue      *HashQueue             // nil: no limit
	idleCursor atomic.Pointer[cursor] // between calls, for its proved path

	// parents is nil until reads have read more upper-level parents than the tree
	// has, and so some of them twice. One pass over the object needs no cache.
	parents        atomic.Pointer[parentCache]
	topParentsRead atomic.Int64 // upper-level parents read while parents is nil

	// proved is the whole object if it is in RAM, and nil otherwise. Its bytes
	// are verified and never change. Only Memory makes such bytes.
	proved []byte
}

// cursor is a walk for single groups in any order, with the buffers for parents.
type cursor struct {
	walk  Walk
	pair  [ParentSize]byte
	block parentBlock
}

// cursors holds cursors that belong to no Reader.
var cursors = sync.Pool{New: func() any { return new(cursor) }}

// NewReader returns a Reader of the object root with a claimed size in bytes,
// stored in src. Reads of the last group fail if the size is false. No
// [HashQueue] limits its hashing.
func NewReader(root Root, size int64, src Source) *Reader {
	return (*HashQueue)(nil).Reader(root, size, src)
}

// Root returns the object's address.
func (r *Reader) Root() Root { return r.root }

// Size returns the size in bytes that the Reader was given.
func (r *Reader) Size() int64 { return r.size }

// Walk returns the walk over ranges of the object, as [NewWalk] does.
func (r *Reader) Walk(ranges []Range) (*Walk, error) { return r.queue.Walk(r.root, r.size, ranges) }

// SizeProof returns the walk that proves only the size, as [HashQueue.SizeProof] does.
func (r *Reader) SizeProof() (*Walk, error) { return r.queue.SizeProof(r.root, r.size) }

// Fill calls [Walk.Fill] with the Reader's source. A group of an object in RAM is not hashed again.
func (r *Reader) Fill(w *Walk, buf []byte) (Proved, error) {
	same := r.proved != nil && w.root == r.root && w.size == r.size
	if same && len(w.spans) > 0 && !w.next.Parent && w.err == nil && len(buf) >= w.next.Len {
		proved := w.accepted(buf[:copy(buf, groupOf(r.proved, w.next.Group))])
		w.releaseBlock()
		return proved, nil
	}
	return w.Fill(r.src, buf)
}

// ReadGroup reads and verifies group g. The result is the front of buf, whose
// capacity must hold the group; GroupSize is always enough. ReadGroup does not
// read parents again that the previous read proved. An error that wraps
// ErrCorrupt means that the stored bytes are damaged.
func (r *Reader) ReadGroup(g int64, buf []byte) ([]byte, error) {
	if g < 0 || g >= Groups(r.size) || !validSize(r.size) {
		return nil, status.Errorf(status.BadRange, "%s has no group %d", r.root, g)
	}
	if r.proved != nil {
		return buf[:copy(buf[:cap(buf)], groupOf(r.proved, g))], nil
	}
	c := r.takeCursor()
	c.walk.seek(g)
	p, cacheCreated, err := r.fillGroup(&c.walk, &c.pair, buf[:cap(buf)])
	if err != nil {
		return nil, err
	}
	if cacheCreated {
		c.walk.path = c.walk.path[:0] // the next read starts at the root and fills the cache
	}
	r.putCursor(c)
	return p.Data(), nil
}

// fillGroup advances walk past its next group. It reads the group into buf and
// each parent before it into pair. It takes upper-level parents from the cache if
// they are there. cacheCreated reports that this call created the cache.
func (r *Reader) fillGroup(
	walk *Walk, pair *[ParentSize]byte, buf []byte,
) (p Proved, cacheCreated bool, err error) {
	t := r.parents.Load()
	for read := 0; ; {
		item, _ := walk.Next()
		if !item.Parent {
			p, err = walk.Fill(r.src, buf)
			return p, err == nil && t == nil && read > 0 && r.countTopParents(read), err
		}
		slot, top := 0, len(walk.path) < cachedLevels
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

// takeCursor returns the idle cursor, or one that starts at the root.
func (r *Reader) takeCursor() *cursor {
	c := r.idleCursor.Swap(nil)
	if c == nil { // the first call, or a concurrent call has it
		c = cursors.Get().(*cursor)
		c.block.n, c.block.kept = 0, true // what it has is of another object
		c.walk = Walk{root: r.root, size: r.size, path: c.walk.path[:0], queue: r.queue, block: &c.block}
	}
	return c
}

// putCursor keeps c for the next call.
func (r *Reader) putCursor(c *cursor) {
	if old := r.idleCursor.Swap(c); old != nil {
		cursors.Put(old)
	}
}

// countTopParents adds the number of upper-level parents that a call read. When
// the total shows that reads repeat parents, it creates the cache and returns
// true.
func (r *Reader) countTopParents(read int) bool {
	slots := cacheSlots(Groups(r.size))
	if r.topParentsRead.Add(int64(read)) < int64(slots) || r.parents.Load() != nil {
		return false
	}
	return r.parents.CompareAndSwap(nil, &parentCache{slots: make([]parentSlot, slots)})
}

// ReadAt implements [io.ReaderAt]. p[:n] is verified. After an error it clears the
// rest of p.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, status.Errorf(status.BadRange, "read %s at offset %d", r.root, off)
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
			return n, fmt.Errorf("read at offset %d: %w", off, err)
		}
		n += got
		off += int64(got)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readPart copies the bytes of group g from byte skip on into p.
func (r *Reader) readPart(p []byte, g int64, skip int) (int, error) {
	buf := groupBuffers.Get().(*[GroupSize]byte)
	defer groupBuffers.Put(buf)
	data, err := r.ReadGroup(g, buf[:])
	if err != nil {
		return 0, err
	}
	return copy(p, data[skip:]), nil
}
