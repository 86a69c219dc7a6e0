package b3

import (
	"io"
	"math/bits"
)

// spine is a tree that grows to the right: the chaining values of its complete
// subtrees, largest first. Two subtrees of one size are merged only when the
// next group arrives, because until then their parent may be the root.
//
// Invariant: the stack holds the subtrees of the binary digits of groups, and
// beside them only what the latest group allows to merge.
type spine struct {
	groups int64 // pushed so far
	depth  int   // values on the stack
	// The values lie one after the other, so the top two are a parent.
	stack [(maxDepth + 2) * Size]byte
	out   *outboard // takes the parents in post-order; may be nil
}

// push appends the next group's chaining value.
func (s *spine) push(cv [Size]byte) {
	for s.depth > bits.OnesCount64(uint64(s.groups)) {
		s.merge(false)
	}
	copy(s.stack[s.depth*Size:], cv[:])
	s.depth++
	s.groups++
}

// root merges what is left. At least two groups must have been pushed.
func (s *spine) root() Root {
	for s.depth > 1 {
		s.merge(s.depth == 2)
	}
	return Root(s.stack[:Size])
}

// merge replaces the top two values with their parent's.
func (s *spine) merge(root bool) {
	s.depth--
	p := (*[ParentSize]byte)(s.stack[(s.depth-1)*Size:])
	if s.out != nil {
		s.out.add(p)
	}
	cv := parentCV(p, root)
	copy(p[:], cv[:])
}

// outboard gathers parents on their way to a writer.
type outboard struct {
	w      io.Writer
	err    error // the first of w; nothing is written after it
	filled int   // bytes of buf that wait
	buf    [64 * ParentSize]byte
}

func (o *outboard) add(p *[ParentSize]byte) {
	o.filled += copy(o.buf[o.filled:], p[:])
	if o.filled == len(o.buf) {
		o.flush()
	}
}

func (o *outboard) flush() {
	if o.filled > 0 && o.err == nil {
		_, o.err = o.w.Write(o.buf[:o.filled])
	}
	o.filled = 0
}
