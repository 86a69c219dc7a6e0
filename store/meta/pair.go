package meta

import (
	"errors"
	"io"

	"allium/protocols/b3"
)

// File is one half of a large object.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Pair is a large object: plain bytes, and outboard in post-order.
type Pair struct {
	Data, Outboard File
}

// Close gives the files up. What was written to them is synced before or lost
// on purpose, so there is no error to look at.
func (p Pair) Close() {
	_ = p.Data.Close()
	_ = p.Outboard.Close()
}

// PairSource is a large object. The files stay behind a named field, so that no
// sendfile can pass the verification by.
type PairSource struct {
	Pair Pair
	Size int64
}

// ReadGroup implements b3.Source.
func (f PairSource) ReadGroup(g int64, p []byte) (int, error) {
	at := g * b3.GroupSize
	n, err := f.Pair.Data.ReadAt(p[:min(int64(len(p)), f.Size-at)], at)
	return n, ReadError(err)
}

// ReadParent implements b3.Source.
func (f PairSource) ReadParent(node int64, p *[b3.ParentSize]byte) error {
	if n, err := f.Pair.Outboard.ReadAt(p[:], node*b3.ParentSize); n < len(p) {
		return ReadError(err)
	}
	return nil
}

// ReadFull fills p from the beginning of f.
func ReadFull(f File, p []byte) error {
	n, err := f.ReadAt(p, 0)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Defect("short")
	}
	return ReadError(err)
}

// Appender writes to a file from an offset on, which moves.
type Appender struct {
	F   io.WriterAt
	Off int64
}

// Write implements io.Writer.
func (a *Appender) Write(p []byte) (int, error) {
	n, err := a.F.WriteAt(p, a.Off)
	a.Off += int64(n)
	return n, err
}
