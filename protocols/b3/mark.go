package b3

import "io"

// Mark is how far a Hasher came with an object that goes on later: the chaining
// values of the subtrees that are complete, about 1.5 KB. It is a value, and
// holds nothing.
type Mark struct{ tree spine }

// Size is how many bytes, whole groups, the mark stands for.
func (m *Mark) Size() int64 { return m.tree.groups * GroupSize }

// OutboardSize is how many bytes of the outboard were written before the mark.
func (m *Mark) OutboardSize() int64 { return (m.tree.groups - int64(m.tree.depth)) * ParentSize }

// Suspend ends the writing, not the object: it hashes the groups that are whole,
// writes their parents, waits for the helpers and returns the mark to Resume
// from. At most one group was written behind it, which the mark does not have;
// whoever resumes writes it again. An error is that of the outboard's writer.
func (h *Hasher) Suspend() (Mark, error) {
	if h.summed {
		return Mark{}, errFinished
	}
	h.summed = true
	for len(h.queue) > 0 {
		h.collect()
	}
	if b := h.current; b != nil && b.n > 0 {
		// The last group may be the only one, whose hash would differ.
		b.hash(b.buf[:(b.n-1)/GroupSize*GroupSize])
		h.take(b)
	}
	h.join()
	h.out.flush()
	m := Mark{h.tree}
	m.tree.out = nil
	return m, h.out.err
}

// Resume makes h go on where m was taken, by this Hasher or another: the next
// byte that is written is number m.Size() of the object, and the next parent
// goes to out behind m.OutboardSize() bytes. out may be nil.
func (h *Hasher) Resume(out io.Writer, m Mark) {
	h.Reset(out)
	tree := h.tree.out
	h.tree = m.tree
	h.tree.out = tree
	h.size = m.Size()
}
