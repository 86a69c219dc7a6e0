package b3

import (
	"io"
	"math/bits"
)

// treeBuilder computes a tree from its groups in order. It holds a stack of the
// chaining values of the complete subtrees, largest first. It merges two subtrees
// of equal size only when the next group arrives: until then their parent may be
// the root, which hashes differently.
//
// Invariant: the stack has one subtree for each 1 bit of groups, and besides only
// the subtrees that the next push may merge.
type treeBuilder struct {
	groups int64 // pushed so far
	depth  int   // values on the stack
	// The values are adjacent, so the bytes of the top two are a parent.
	stack [(maxDepth + 2) * Size]byte
	out   *outboardWriter // takes the parents in post-order; may be nil
}

// push appends the next group's chaining value.
func (s *treeBuilder) push(cv [Size]byte) {
	for s.depth > bits.OnesCount64(uint64(s.groups)) {
		s.merge(false)
	}
	copy(s.stack[s.depth*Size:], cv[:])
	s.depth++
	s.groups++
}

// root merges the remaining subtrees and returns the root. The caller must have
// pushed at least two groups.
func (s *treeBuilder) root() Root {
	for s.depth > 1 {
		s.merge(s.depth == 2)
	}
	return Root(s.stack[:Size])
}

// merge replaces the top two values with their parent's.
func (s *treeBuilder) merge(root bool) {
	s.depth--
	p := (*[ParentSize]byte)(s.stack[(s.depth-1)*Size:])
	if s.out != nil {
		s.out.add(p)
	}
	cv := parentCV(p, root)
	copy(p[:], cv[:])
}

// outboardWriter buffers up to 64 parents and writes them to w.
type outboardWriter struct {
	w      io.Writer
	err    error // the first error of w; nothing is written after it
	filled int   // bytes of buf not yet written
	buf    [64 * ParentSize]byte
}

func (o *outboardWriter) add(p *[ParentSize]byte) {
	o.filled += copy(o.buf[o.filled:], p[:])
	if o.filled == len(o.buf) {
		o.flush()
	}
}

func (o *outboardWriter) flush() {
	if o.filled > 0 && o.err == nil {
		_, o.err = o.w.Write(o.buf[:o.filled])
	}
	o.filled = 0
}
