package b3

import (
	"io"
	"math/bits"
)

// spine is a tree that grows to the right: the chaining values of its complete
// subtrees, largest first. Subtrees of equal size are merged only when the next
// group arrives, because until then their parent may be the root.
//
// Invariant: between calls, depth ≤ popcount(groups) + the merges that the
// latest group made possible.
type spine struct {
	groups int64 // pushed so far
	depth  int   // values on the stack
	// The values lie one after the other, so the top two are a parent.
	stack [(2*maxDepth + 2) * Size]byte

	out    io.Writer // takes the parents in post-order; may be nil
	err    error     // first error of out
	filled int       // bytes of buf that wait for out
	buf    [64 * ParentSize]byte
}

// push appends the next group's chaining value.
func (s *spine) push(cv [Size]byte) {
	for s.depth > bits.OnesCount64(uint64(s.groups)) {
		s.merge(false)
	}
	*(*[Size]byte)(s.stack[s.depth*Size:]) = cv
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
		s.filled += copy(s.buf[s.filled:], p[:])
		if s.filled == len(s.buf) {
			s.flush()
		}
	}
	*(*[Size]byte)(p[:Size]) = parentCV(p, root)
}

// flush hands the waiting parents to out.
func (s *spine) flush() {
	if s.filled > 0 && s.err == nil {
		_, s.err = s.out.Write(s.buf[:s.filled])
	}
	s.filled = 0
}

// reset makes the spine empty, with parents going to out.
func (s *spine) reset(out io.Writer) {
	s.groups, s.depth, s.filled = 0, 0, 0
	s.out, s.err = out, nil
}
