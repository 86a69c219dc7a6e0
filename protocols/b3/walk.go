package b3

import (
	"errors"
	"fmt"
	"io"
	"math/bits"

	"allium/protocols/status"
)

// ErrCorrupt reports data, parents or a claimed size that do not hash to the root.
var ErrCorrupt error = status.Errorf(status.Corrupt, "the bytes do not match the address")

// GroupError says which group a failed [Walk.Accept], [Walk.Fill] or read was
// about to prove. The group's own bytes or a parent above it caused the error.
type GroupError struct {
	Group int64
	err   error
}

func (e *GroupError) Error() string { return e.err.Error() }
func (e *GroupError) Unwrap() error { return e.err }

// Item is one step of a walk: a parent or a group.
type Item struct {
	Parent bool  // whether the item is a parent
	Node   int64 // the parent's index in the outboard
	Group  int64 // the group's number
	Len    int   // length in bytes, at most GroupSize; 0 for the empty object's group
}

// Walk visits the parents and groups of an object's tree over a union of ranges,
// in pre-order (OAP1 §9). It says which item comes next and verifies that item.
// The sender, the receiver and local readers all use the same Walk.
//
// A Walk holds one proved parent for each level of the tree, so its memory does
// not grow with the object. It is not safe for concurrent use.
type Walk struct {
	root   Root
	size   int64
	queue  *HashQueue // nil: no limit
	spans  []span     // the groups left to prove; spans[0].lo is the next group
	single [1]span    // backs spans after seek

	// path holds proved parents from the root down towards the latest item. Each
	// covers the next one.
	path []parent

	expected
	sizeProved bool
	err        error

	block *parentBlock // what Fill has read; nil for nothing
}

// expected is the item that a Walk proves next. It is valid while spans is not empty.
type expected struct {
	next   Item
	lo, hi int64      // next covers groups [lo, hi)
	wantCV [Size]byte // next must hash to this chaining value
}

// parent is a proved parent over groups [lo, hi).
type parent struct {
	lo, hi int64
	cvs    [ParentSize]byte
}

// NewWalk returns the walk over ranges of the object root with a claimed size in
// bytes. No ranges means the whole object. The walk widens ranges to whole
// groups, sorts and merges them, and cuts off bytes past the claimed size. A walk
// may then have no items; such a walk proves nothing. A range that reaches the
// claimed end or beyond includes the last group, which proves the size.
//
// The error is upstream for a size below 0 or above MaxSize, and bad_range for a
// malformed range.
func NewWalk(root Root, size int64, ranges []Range) (*Walk, error) {
	if !validSize(size) {
		return nil, status.Errorf(status.Upstream, "%s cannot have %d bytes", root, size)
	}
	s, err := spans(size, ranges)
	if err != nil {
		return nil, err
	}
	return newWalk(root, size, s), nil
}

func newWalk(root Root, size int64, s []span) *Walk {
	n := Groups(size)
	w := &Walk{root: root, size: size, spans: s, path: make([]parent, 0, bits.Len64(uint64(n-1)))}
	w.advance()
	return w
}

func (w *Walk) groups() int64 { return Groups(w.size) }

// Size returns the claimed size in bytes. It is proved once SizeProved reports
// true.
func (w *Walk) Size() int64 { return w.size }

// SizeProved reports whether the last group was verified, which proves Size.
func (w *Walk) SizeProved() bool { return w.sizeProved }

// Next returns the item that Accept or Fill verifies next, and false after the
// last item. A failed walk stays at the item that failed.
func (w *Walk) Next() (Item, bool) { return w.next, len(w.spans) > 0 }

// Accept verifies p as the next item and advances the walk. The Proved that it
// returns shares p. An error wraps ErrCorrupt, and every later call returns the
// same error.
func (w *Walk) Accept(p []byte) (Proved, error) {
	switch {
	case w.err != nil:
		return Proved{}, w.err
	case len(w.spans) == 0:
		return Proved{}, w.fail("%d bytes follow the last item", len(p))
	case len(p) != w.next.Len:
		return Proved{}, w.fail("%s has %d bytes, want %d", w.next, len(p), w.next.Len)
	}
	isRoot := w.hi-w.lo == w.groups()
	if w.next.Parent {
		if parentCV((*[ParentSize]byte)(p), isRoot) != w.wantCV {
			return Proved{}, w.fail("%s is wrong", w.next)
		}
	} else if w.queue.groupCV(p, w.lo, isRoot) != w.wantCV {
		return Proved{}, w.fail("%s is wrong", w.next)
	}
	return w.accepted(p), nil
}

// accepted advances the walk past the next item, whose verified bytes are p.
func (w *Walk) accepted(p []byte) Proved {
	if w.next.Parent {
		w.path = append(w.path, parent{w.lo, w.hi, [ParentSize]byte(p)})
	} else {
		w.sizeProved = w.sizeProved || w.hi == w.groups()
		if w.spans[0].lo++; w.spans[0].lo == w.spans[0].hi {
			w.spans = w.spans[1:]
		}
	}
	proved := Proved{root: w.root, size: w.size, item: w.next, data: p, valid: true, sizeProved: w.sizeProved}
	w.advance()
	return proved
}

// Fill reads the next item from src into the front of buf and verifies it. buf
// must have at least Item.Len bytes, and its content is valid only when the error
// is nil. After an error of src the walk stays where it was and may be retried.
// Wrong or missing bytes fail the walk as in Accept. After the last item Fill
// returns io.EOF.
func (w *Walk) Fill(src Source, buf []byte) (Proved, error) {
	if w.err != nil {
		return Proved{}, w.err
	}
	if len(w.spans) == 0 {
		return Proved{}, io.EOF
	}
	if len(buf) < w.next.Len {
		return Proved{}, fmt.Errorf("read %s into %d bytes: %w", w.next, len(buf), io.ErrShortBuffer)
	}
	buf = buf[:w.next.Len]
	var err error
	if w.next.Parent {
		err = w.readParent(src, buf)
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
		proved, err := w.Accept(buf)
		w.releaseBlock()
		return proved, err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Proved{}, w.fail("%s is cut short", w.next)
	}
	return Proved{}, &GroupError{w.spans[0].lo, fmt.Errorf("read %s of %s: %w", w.next, w.root, err)}
}

// String returns "parent N" or "group N", for errors.
func (i Item) String() string {
	if i.Parent {
		return fmt.Sprintf("parent %d", i.Node)
	}
	return fmt.Sprintf("group %d", i.Group)
}

// seek makes g the only group left to prove. It keeps the path, so the walk does
// not visit parents that are above both the latest item and g again.
func (w *Walk) seek(g int64) {
	w.single[0] = span{g, g + 1}
	w.spans = w.single[:]
	w.advance()
}

// advance sets the next item. The item is a child of the deepest proved parent
// above the next group, on the path to that group. Without such a parent it is
// the root.
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
		w.lo, w.hi, w.wantCV = 0, w.groups(), w.root
	} else {
		p := &w.path[n-1]
		if mid := split(p.lo, p.hi); g < mid {
			w.lo, w.hi, w.wantCV = p.lo, mid, [Size]byte(p.cvs[:Size])
		} else {
			w.lo, w.hi, w.wantCV = mid, p.hi, [Size]byte(p.cvs[Size:])
		}
	}
	if w.hi-w.lo == 1 {
		w.next = Item{Group: w.lo, Len: groupLen(w.size, w.lo)}
	} else {
		w.next = Item{Parent: true, Node: nodeIndex(w.lo, w.hi, w.groups()), Len: ParentSize}
	}
}

func (w *Walk) fail(format string, args ...any) error {
	w.err = fmt.Errorf("verify %s: %s: %w", w.root, fmt.Sprintf(format, args...), ErrCorrupt)
	if len(w.spans) > 0 {
		w.err = &GroupError{w.spans[0].lo, w.err}
	}
	return w.err
}
