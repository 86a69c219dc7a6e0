package manifest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// MaxDepth is the number of index levels above the leaves. A full index node
// has more than 800 children, so two levels hold a thousand million entries.
const MaxDepth = 4

// Putter stores one manifest object and returns its address. p is valid only
// during the call.
type Putter func(ctx context.Context, p []byte) (b3.Root, error)

// Builder writes the directory of a sequence of entries, node by node, as they
// come. It keeps at most one open node (MaxNode bytes) per level in memory,
// however many entries there are. It is not safe for concurrent use.
//
// Invariant: levels[0] is the open leaf, levels[i+1] the open index over the
// nodes that levels[i] has closed.
type Builder struct {
	put    Putter
	split  split
	levels []*level
	last   string // name of the last entry; "" before the first
	err    error  // sticky: put's, or that the builder is closed
}

// split is the rule that closes a node (OAP1.md §11).
type split struct {
	min, max int    // bytes of the whole object, magic line included
	modulus  uint32 // one name in so many ends a node of min bytes or more
}

var standard = split{min: 256 << 10, max: MaxNode, modulus: 1024}

// ends reports whether a node of size bytes is closed after the entry name.
func (s split) ends(size int, name string) bool {
	if size < s.min {
		return false
	}
	sum := b3.Sum([]byte(name))
	return binary.LittleEndian.Uint32(sum[:4])%s.modulus == 0
}

// level is the open node of one level.
type level struct {
	buf     []byte       // headRoom free bytes, then the encoded entries
	n       int          // entries in buf
	first   string       // name of the first of them
	last    Child        // the last of them, on an index level
	scratch bytes.Buffer // one encoded entry
}

// headRoom is what precedes the entries of a node at most: magic line, map of
// two, kind, array of up to 2^32 entries.
const headRoom = len(Magic) + 4 + 5

// NewBuilder returns a builder of one directory that hands finished nodes to
// put, from the caller's goroutine, children before parents.
func NewBuilder(put Putter) *Builder { return newBuilder(put, standard) }

func newBuilder(put Putter, s split) *Builder {
	return &Builder{put: put, split: s, levels: []*level{newLevel()}}
}

// Add appends an entry. Names ascend bytewise: one out of order, there already
// or not allowed (see [CheckName]) is refused with a [*EntryError]
// (bad_request) and the builder goes on without it. An error of put ends the
// builder: every later call returns it.
func (b *Builder) Add(ctx context.Context, e Entry) error {
	if b.err != nil {
		return b.err
	}
	if err := e.check(); err != nil {
		return err
	}
	if err := checkOrder(b.last, e.Name); err != nil {
		return err
	}
	b.last = e.Name
	b.err = b.append(ctx, 0, e.Name, e.wire())
	return b.err
}

// Close writes the nodes that are still open and returns the address and the
// size in bytes of the directory's root node. The builder is then done.
func (b *Builder) Close(ctx context.Context) (b3.Root, int64, error) {
	if b.err != nil {
		return b3.Root{}, 0, b.err
	}
	c, err := b.finish(ctx)
	if err != nil {
		b.err = err
		return b3.Root{}, 0, err
	}
	b.err = status.Errorf(status.Internal, "manifest: the builder is closed")
	return c.Root, c.Size, nil
}

// finish closes every level, lowest first. The last level holds the root.
func (b *Builder) finish(ctx context.Context) (Child, error) {
	for i := 0; ; i++ {
		l := b.levels[i]
		if i < len(b.levels)-1 {
			if l.n > 0 {
				if err := b.closeNode(ctx, i); err != nil {
					return Child{}, err
				}
			}
			continue
		}
		if i > 0 && l.n == 1 { // an index over one node: that node is the root
			return l.last, nil
		}
		return b.write(ctx, i)
	}
}

// append adds one encoded entry to level i by the rule of OAP1.md §11.
func (b *Builder) append(ctx context.Context, i int, name string, w *wireEntry) error {
	l := b.levels[i]
	l.scratch.Reset()
	if err := encode(&l.scratch, w); err != nil {
		return status.Errorf(status.Internal, "manifest: encode %q: %w", name, err)
	}
	if l.n > 0 && l.size(1)+l.scratch.Len() > b.split.max {
		if err := b.closeNode(ctx, i); err != nil {
			return err
		}
	}
	if l.n == 0 {
		l.first = name
	}
	l.buf = append(l.buf, l.scratch.Bytes()...)
	l.n++
	if b.split.ends(l.size(0), name) {
		return b.closeNode(ctx, i)
	}
	return nil
}

// closeNode writes the open node of level i and enters it in the level above.
func (b *Builder) closeNode(ctx context.Context, i int) error {
	if i == MaxDepth {
		return status.Errorf(status.BodyCap, "manifest: the directory needs more than %d levels of index", MaxDepth)
	}
	c, err := b.write(ctx, i)
	if err != nil {
		return err
	}
	if i+1 == len(b.levels) {
		b.levels = append(b.levels, newLevel())
	}
	b.levels[i+1].last = c
	return b.append(ctx, i+1, c.First, c.wire())
}

// write puts the open node of level i and empties it.
func (b *Builder) write(ctx context.Context, i int) (Child, error) {
	l := b.levels[i]
	p := l.object(i > 0)
	root, err := b.put(ctx, p)
	if err != nil {
		return Child{}, fmt.Errorf("manifest: put a node: %w", err)
	}
	c := Child{First: l.first, Root: root, Size: int64(len(p))}
	l.buf, l.n = l.buf[:headRoom], 0
	return c, nil
}

func newLevel() *level { return &level{buf: make([]byte, headRoom, 4<<10)} }

// size is that of the whole object with more entries of no bytes added.
func (l *level) size(more int) int {
	var h [headRoom]byte
	return len(appendHead(h[:0], kindDirectory, l.n+more)) + len(l.buf) - headRoom
}

// object is the whole object; it shares memory with buf.
func (l *level) object(index bool) []byte {
	kind := byte(kindDirectory)
	if index {
		kind = kindIndex
	}
	var h [headRoom]byte
	head := appendHead(h[:0], kind, l.n)
	start := headRoom - len(head)
	copy(l.buf[start:], head)
	return l.buf[start:]
}

// appendHead appends what precedes n entries: the magic line and the CBOR
// {0: kind, 1: [ of n items. Without entries member 1 is omitted.
func appendHead(dst []byte, kind byte, n int) []byte {
	dst = append(dst, Magic...)
	if n == 0 {
		return append(dst, 0xa1, 0x00, kind)
	}
	dst = append(dst, 0xa2, 0x00, kind, 0x01)
	const array = 0x80
	switch {
	case n < 24:
		return append(dst, array|byte(n))
	case n <= math.MaxUint8:
		return append(dst, array|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, array|25), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, array|26), uint32(n))
}
