package b3

import "io"

// HasherState is the state of a suspended Hasher: the chaining values of the
// complete subtrees, about 1.5 KB. It holds no resources and may be copied.
type HasherState struct{ tree treeBuilder }

// Size returns how many bytes of the object the state covers, in whole groups.
func (s *HasherState) Size() int64 { return s.tree.groups * GroupSize }

// OutboardSize returns how many bytes of the outboard belong to the state.
func (s *HasherState) OutboardSize() int64 { return (s.tree.groups - int64(s.tree.depth)) * ParentSize }

// Suspend stops hashing so that [Hasher.Resume] can continue later. It hashes the
// whole groups, writes their parents, waits for the helpers and returns the state.
// The state omits at most one group of the written bytes. The caller of Resume
// writes the bytes from [HasherState.Size] on again. An error is the error of the
// outboard's writer.
func (h *Hasher) Suspend() (HasherState, error) {
	if h.summed {
		return HasherState{}, errFinished
	}
	h.summed = true
	for len(h.queue) > 0 {
		h.collectOldest()
	}
	if b := h.current; b != nil && b.n > 0 {
		// Omit the last group: an object's only group hashes differently.
		b.hash(b.buf[:(b.n-1)/GroupSize*GroupSize], h.cores)
		h.addToTree(b)
	}
	h.stopHelpers()
	h.out.flush()
	s := HasherState{h.tree}
	s.tree.out = nil
	return s, h.out.err
}

// Resume resets h to the state s of this Hasher or another. The next byte written
// to h must be byte s.Size() of the object. The next parent goes to out, which
// continues the outboard behind s.OutboardSize() bytes. out may be nil.
func (h *Hasher) Resume(out io.Writer, s HasherState) {
	h.Reset(out)
	tree := h.tree.out
	h.tree = s.tree
	h.tree.out = tree
	h.size = s.Size()
}
