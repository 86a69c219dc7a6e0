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
	// ReadParent reads the parent at index node of the outboard.
	ReadParent(node int64, p *[ParentSize]byte) error
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

func (f *fileSource) ReadParent(node int64, p *[ParentSize]byte) error {
	if node < 0 || node >= Groups(f.size)-1 {
		return noParent(node, Groups(f.size)-1)
	}
	if n, err := f.outboard.ReadAt(p[:], node*ParentSize); n < len(p) {
		return err
	}
	return nil
}

func noGroup(g, groups int64) error {
	return status.Errorf(status.Internal, "read group %d: the object has %d groups", g, groups)
}

func noParent(node, parents int64) error {
	return status.Errorf(status.Internal, "read parent %d: the outboard has %d parents", node, parents)
}
