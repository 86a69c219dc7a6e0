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

// MaxDepth is the most index levels above the leaves. A full index node has more
// than 800 children, so two levels hold a thousand million entries.
const MaxDepth = 4

// Putter stores one manifest object and returns its address. p is valid only
// during the call.
type Putter func(ctx context.Context, p []byte) (b3.Root, error)

// Builder encodes a sequence of entries as a directory and writes each node when
// it is complete. It holds at most one open node (MaxNode bytes) per level, for
// any number of entries. It is not safe for concurrent use.
//
// Invariant: levels[0] is the open leaf; levels[i+1] is the open index over the
// closed nodes of levels[i].
type Builder struct {
	put    Putter
	split  split
	levels []*level
	last   string // name of the last entry; "" before the first
	err    error  // the error of put, or that the builder is closed; every later call returns it
}

// split is the rule that ends a node (OAP1.md §11).
type split struct {
	min, max int    // bytes of the whole object, including the magic line
	modulus  uint32 // one of modulus names ends a node of at least min bytes
}

var standard = split{min: 256 << 10, max: MaxNode, modulus: 1024}

// ends reports whether a node of size bytes ends after the entry name.
func (s split) ends(size int, name string) bool {
	if size < s.min {
		return false
	}
	sum := b3.Sum([]byte(name))
	return binary.LittleEndian.Uint32(sum[:4])%s.modulus == 0
}

// level is the open node of one level.
type level struct {
	buf     []byte       // maxHead free bytes, then the encoded entries
	n       int          // entries in buf
	first   string       // name of the first entry in buf
	last    Child        // the last child in buf, on an index level
	scratch bytes.Buffer // one encoded entry
}

// maxHead is the most bytes before the entries of a node: magic line, map of two,
// kind, array of up to 2^32 entries.
const maxHead = len(Magic) + 4 + 5

// NewBuilder returns a Builder of one directory. It calls put with each finished
// node, children before parents, from the goroutine that calls Add or Close.
func NewBuilder(put Putter) *Builder { return newBuilder(put, standard) }

func newBuilder(put Putter, s split) *Builder {
	return &Builder{put: put, split: s, levels: []*level{newLevel()}}
}

// Add appends an entry. Names must be in ascending byte order. For a name that is
// out of order, repeated or invalid (see [NameProblem]), Add returns an
// [*EntryError] (bad_request) and the builder continues without the entry. After
// an error of put, every later call returns that error.
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

// Close writes the open nodes and returns the address and the size in bytes of the
// directory's root node. Later calls fail.
func (b *Builder) Close(ctx context.Context) (b3.Root, int64, error) {
	if b.err != nil {
		return b3.Root{}, 0, b.err
	}
	c, err := b.finish(ctx)
	if err != nil {
		b.err = err
		return b3.Root{}, 0, err
	}
	b.err = status.Errorf(status.Internal, "the manifest builder is closed")
	return c.Root, c.Size, nil
}

// finish closes every level, lowest first. The root is on the last level.
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
		if i > 0 && l.n == 1 { // an index over one node is omitted: that node is the root
			return l.last, nil
		}
		return b.write(ctx, i)
	}
}

// append adds one entry to level i and closes nodes by the rule of OAP1.md §11.
func (b *Builder) append(ctx context.Context, i int, name string, w *wireEntry) error {
	l := b.levels[i]
	l.scratch.Reset()
	if err := encode(&l.scratch, w); err != nil {
		return status.Errorf(status.Internal, "encode %q: %w", name, err)
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

// closeNode writes the open node of level i and adds it to the level above.
func (b *Builder) closeNode(ctx context.Context, i int) error {
	if i == MaxDepth {
		return status.Errorf(status.BodyCap, "the directory needs more than %d index levels", MaxDepth)
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

// write stores the open node of level i and empties it.
func (b *Builder) write(ctx context.Context, i int) (Child, error) {
	l := b.levels[i]
	p := l.object(i > 0)
	root, err := b.put(ctx, p)
	if err != nil {
		return Child{}, fmt.Errorf("put a node: %w", err)
	}
	c := Child{First: l.first, Root: root, Size: int64(len(p))}
	l.buf, l.n = l.buf[:maxHead], 0
	return c, nil
}

func newLevel() *level { return &level{buf: make([]byte, maxHead, 4<<10)} }

// size returns the size of the whole object in bytes, as if it had more additional
// entries of 0 bytes. Only the length of the array head depends on more.
func (l *level) size(more int) int {
	var h [maxHead]byte
	return len(appendHead(h[:0], kindDirectory, l.n+more)) + len(l.buf) - maxHead
}

// object returns the whole object, which shares memory with buf.
func (l *level) object(index bool) []byte {
	kind := byte(kindDirectory)
	if index {
		kind = kindIndex
	}
	var h [maxHead]byte
	head := appendHead(h[:0], kind, l.n)
	start := maxHead - len(head)
	copy(l.buf[start:], head)
	return l.buf[start:]
}

// appendHead appends the bytes before n entries: the magic line and the CBOR
// {0: kind, 1: [ for n items. Without entries it omits member 1.
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
