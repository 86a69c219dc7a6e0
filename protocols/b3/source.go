package b3

import (
	"io"

	"allium/protocols/status"
)

// Source is the raw storage of one object. It verifies nothing; [Walk.Fill] and
// [Reader] verify what they read from it. A Source that several goroutines read
// must be safe for concurrent use.
type Source interface {
	// ReadGroup reads group g into p and returns the number of bytes read. p is at
	// least as long as the object's size makes the group. For a shorter group the
	// error may be nil, io.EOF or io.ErrUnexpectedEOF.
	ReadGroup(g int64, p []byte) (n int, err error)
	// ReadParents reads consecutive parents of the outboard, up to the one at index node, to the front of p. It returns
	// their number: at least 1 without an error, and at most as many as p holds. All of them are at and below node: p
	// holds no more parents than node's subtree has.
	ReadParents(node int64, p []byte) (n int, err error)
}

// FileSource returns a Source over an object of size bytes, stored as plain bytes
// and post-order outboard. outboard may be nil when size ≤ GroupSize. The Source
// closes neither.
func FileSource(data, outboard io.ReaderAt, size int64) Source {
	return &fileSource{data: data, outboard: outboard, size: size}
}

type fileSource struct {
	data, outboard io.ReaderAt
	size           int64
}

func (f *fileSource) ReadGroup(g int64, p []byte) (int, error) {
	if g < 0 || g >= Groups(f.size) {
		return 0, noGroup(g, Groups(f.size))
	}
	return f.data.ReadAt(p[:min(len(p), groupLen(f.size, g))], g*GroupSize)
}

func (f *fileSource) ReadParents(node int64, p []byte) (int, error) {
	if node < 0 || node >= Groups(f.size)-1 {
		return 0, noParent(node, Groups(f.size)-1)
	}
	return ReadParentsAt(f.outboard, node, p)
}

// ReadParentsAt implements [Source.ReadParents] for an outboard.
func ReadParentsAt(outboard io.ReaderAt, node int64, p []byte) (int, error) {
	n := len(p) / ParentSize
	if got, err := outboard.ReadAt(p[:n*ParentSize], (node-int64(n)+1)*ParentSize); got < n*ParentSize {
		return 0, err
	}
	return n, nil
}

func noGroup(g, groups int64) error {
	return status.Errorf(status.Internal, "read group %d: the object has %d groups", g, groups)
}

func noParent(node, parents int64) error {
	return status.Errorf(status.Internal, "read parent %d: the outboard has %d parents", node, parents)
}
