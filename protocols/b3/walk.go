package b3

import (
	"errors"
	"fmt"
	"io"
	"math/bits"

	"allium/protocols/status"
)

// ErrCorrupt is the outcome of bytes that do not hash to the root, be they
// data, proof or a size that was claimed for them.
var ErrCorrupt error = status.Errorf(status.Corrupt, "the bytes do not match the address")

// GroupError is in the chain of an error of [Walk.Accept], [Walk.Fill] and of
// reads: the group that was to be proved, and was not, because of its own bytes
// or of a parent above it.
type GroupError struct {
	Group int64
	err   error
}

func (e *GroupError) Error() string { return e.err.Error() }
func (e *GroupError) Unwrap() error { return e.err }

// Item is what comes next in a walk.
type Item struct {
	Parent bool  // a parent of ParentSize bytes, else a group
	Node   int64 // a parent's index in the outboard
	Group  int64 // a group's number
	Len    int   // length in bytes, ≤ GroupSize; 0 for the empty object's group
}

// Walk is the pre-order walk of an object's tree over a union of ranges (OAP1
// §9). It says which item comes next and verifies it. What the sender puts on
// the wire, what the receiver takes off it and what a local reader checks is the
// same Walk.
//
// A Walk holds one proved parent per level, so it is as cheap over one range of
// a terabyte as over a file of a few groups. It is not for concurrent use.
type Walk struct {
	root   Root
	size   int64
	groups int64
	queue  *HashQueue // nil: none
	spans  []span     // what is left to prove; the first one's lo is next
	single [1]span    // room for a seek

	// path holds proved parents: each covers the next one, and together they
	// lead from the root towards the latest item.
	path []parent

	next       Item       // valid while spans is not empty
	lo, hi     int64      // the groups that next covers
	want       [Size]byte // what next must hash to
	sizeProved bool
	err        error
}

// parent is a proved parent over groups [lo, hi).
type parent struct {
	lo, hi int64
	cvs    [ParentSize]byte
}

// NewWalk returns the walk over ranges of the object root, of which it is
// claimed that it has size bytes. No ranges is the whole object. Ranges are
// widened to groups, sorted and merged; what lies past the claimed size is cut
// off, so a walk may have no items at all, and then it proves nothing. A range
// that reaches the claimed end, or beyond, takes in the last group and so
// proves the size.
//
// A size below 0 or above MaxSize is upstream, a malformed range bad_range.
func NewWalk(root Root, size int64, ranges []Range) (*Walk, error) {
	if !validSize(size) {
		return nil, status.Errorf(status.Upstream, "b3: %s cannot have %d bytes", root, size)
	}
	s, err := spans(size, ranges)
	if err != nil {
		return nil, err
	}
	return newWalk(root, size, s), nil
}

// NewSizeProof returns the walk that proves a claimed size and no more: the
// right-spine parents and the last group (OAP1 §9).
func NewSizeProof(root Root, size int64) (*Walk, error) {
	return (*HashQueue)(nil).SizeProof(root, size)
}

func newWalk(root Root, size int64, s []span) *Walk {
	n := Groups(size)
	w := &Walk{root: root, size: size, groups: n, spans: s, path: make([]parent, 0, bits.Len64(uint64(n-1)))}
	w.advance()
	return w
}

// Root is the address that the walk proves items of.
func (w *Walk) Root() Root { return w.root }

// Size is the size that the walk was given: a claim unless SizeProved.
func (w *Walk) Size() int64 { return w.size }

// SizeProved reports whether the last group was verified, so that Size is a
// fact.
func (w *Walk) SizeProved() bool { return w.sizeProved }

// Next returns the item that Accept or Fill will verify next, and false when
// every item was. A walk that failed never ends: it stays at the item that was
// refused.
func (w *Walk) Next() (Item, bool) { return w.next, len(w.spans) > 0 }

// Accept verifies p as the next item and moves on. An error wraps ErrCorrupt,
// and every later call returns it again.
func (w *Walk) Accept(p []byte) (Proved, error) {
	switch {
	case w.err != nil:
		return Proved{}, w.err
	case len(w.spans) == 0:
		return Proved{}, w.fail("%d bytes follow the last item", len(p))
	case len(p) != w.next.Len:
		return Proved{}, w.fail("%s has %d bytes, want %d", w.next, len(p), w.next.Len)
	}
	isRoot := w.hi-w.lo == w.groups
	if w.next.Parent {
		cvs := (*[ParentSize]byte)(p)
		if parentCV(cvs, isRoot) != w.want {
			return Proved{}, w.fail("%s is wrong", w.next)
		}
		w.path = append(w.path, parent{w.lo, w.hi, *cvs})
	} else {
		if w.queue.groupCV(p, w.lo, isRoot) != w.want {
			return Proved{}, w.fail("%s is wrong", w.next)
		}
		w.sizeProved = w.sizeProved || w.hi == w.groups
		if w.spans[0].lo++; w.spans[0].lo == w.spans[0].hi {
			w.spans = w.spans[1:]
		}
	}
	proved := Proved{root: w.root, size: w.size, item: w.next, data: p, valid: true, sizeProved: w.sizeProved}
	w.advance()
	return proved, nil
}

// Fill reads the next item from src into the front of buf, which must hold
// Item.Len bytes, and verifies it: the bytes in buf count only when the error is
// nil. An error of src leaves the walk where it was; bytes that are wrong or
// missing fail it as in Accept. A walk with nothing left returns io.EOF.
func (w *Walk) Fill(src Source, buf []byte) (Proved, error) {
	if w.err != nil {
		return Proved{}, w.err
	}
	if len(w.spans) == 0 {
		return Proved{}, io.EOF
	}
	if len(buf) < w.next.Len {
		return Proved{}, fmt.Errorf("b3: %s does not fit %d bytes: %w", w.next, len(buf), io.ErrShortBuffer)
	}
	buf = buf[:w.next.Len]
	var err error
	if w.next.Parent {
		err = src.ReadParent(w.next.Node, (*[ParentSize]byte)(buf))
	} else if len(buf) > 0 {
		var n int
		if n, err = src.ReadGroup(w.next.Group, buf); n < len(buf) && err == nil {
			err = io.ErrUnexpectedEOF
		} else if n == len(buf) && errors.Is(err, io.EOF) {
			err = nil
		}
	}
	switch {
	case err == nil:
		return w.Accept(buf)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Proved{}, w.fail("%s is cut short", w.next)
	}
	return Proved{}, &GroupError{w.spans[0].lo, fmt.Errorf("b3: read %s of %s: %w", w.next, w.root, err)}
}

// String names the item for errors.
func (i Item) String() string {
	if i.Parent {
		return fmt.Sprintf("parent %d", i.Node)
	}
	return fmt.Sprintf("group %d", i.Group)
}

// seek makes group g the only thing left to prove and keeps the path, so that
// parents above both the latest item and g are not asked for again.
func (w *Walk) seek(g int64) {
	w.single[0] = span{g, g + 1}
	w.spans = w.single[:]
	w.advance()
}

// advance finds the item after the latest: the root, or the child, on the way
// to the next group, of the deepest proved parent above it.
func (w *Walk) advance() {
	if len(w.spans) == 0 {
		w.next = Item{}
		return
	}
	g := w.spans[0].lo
	for n := len(w.path); n > 0 && (g < w.path[n-1].lo || g >= w.path[n-1].hi); n-- {
		w.path = w.path[:n-1]
	}
	if n := len(w.path); n == 0 {
		w.lo, w.hi, w.want = 0, w.groups, w.root
	} else {
		p := &w.path[n-1]
		if mid := split(p.lo, p.hi); g < mid {
			w.lo, w.hi, w.want = p.lo, mid, [Size]byte(p.cvs[:Size])
		} else {
			w.lo, w.hi, w.want = mid, p.hi, [Size]byte(p.cvs[Size:])
		}
	}
	if w.hi-w.lo == 1 {
		w.next = Item{Group: w.lo, Len: groupLen(w.size, w.lo)}
	} else {
		w.next = Item{Parent: true, Node: nodeIndex(w.lo, w.hi, w.groups), Len: ParentSize}
	}
}

func (w *Walk) fail(format string, args ...any) error {
	w.err = fmt.Errorf("b3: %s: %s: %w", w.root, fmt.Sprintf(format, args...), ErrCorrupt)
	if len(w.spans) > 0 {
		w.err = &GroupError{w.spans[0].lo, w.err}
	}
	return w.err
}
