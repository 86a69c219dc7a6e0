package b3

import (
	"io"

	"allium/protocols/status"
)

// Source is the raw storage of one object. Nothing it returns is verified;
// [Walk.Fill] and [Reader] do that. A Source must be safe for concurrent use if
// whoever reads from it is.
type Source interface {
	// ReadGroup reads group g into p and returns how many bytes there were. p
	// is as long as the group is by the object's size, or longer. A group that
	// is shorter than that is reported by n alone, io.EOF or
	// io.ErrUnexpectedEOF.
	ReadGroup(g int64, p []byte) (n int, err error)
	// ReadParent reads the parent at index node of the outboard.
	ReadParent(node int64, p *[ParentSize]byte) error
}

// FileSource returns the Source of an object of size bytes kept as plain bytes
// and post-order outboard. outboard may be nil when size ≤ GroupSize. It holds
// both as they are and closes neither.
func FileSource(data, outboard io.ReaderAt, size int64) Source {
	return &fileSource{data: data, outboard: outboard, size: size}
}

type fileSource struct {
	data, outboard io.ReaderAt
	size           int64
}

func (f *fileSource) ReadGroup(g int64, p []byte) (int, error) {
	if g < 0 || g >= Groups(f.size) {
		return 0, status.Errorf(status.Internal, "b3: group %d of %d", g, Groups(f.size))
	}
	return f.data.ReadAt(p[:min(len(p), groupLen(f.size, g))], g*GroupSize)
}

func (f *fileSource) ReadParent(node int64, p *[ParentSize]byte) error {
	if node < 0 || node >= Groups(f.size)-1 {
		return status.Errorf(status.Internal, "b3: parent %d of %d", node, Groups(f.size)-1)
	}
	if n, err := f.outboard.ReadAt(p[:], node*ParentSize); n < len(p) {
		return err
	}
	return nil
}
