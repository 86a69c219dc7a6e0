package meta

import (
	"errors"
	"io"

	"allium/protocols/b3"
)

// File is one of the two files of a large object.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Pair is the two files of a large object: its plain bytes, and its outboard in
// post-order.
type Pair struct {
	Data, Outboard File
}

// Close closes both files. It ignores errors: callers sync the files earlier, or
// do not need what they wrote.
func (p Pair) Close() {
	_ = p.Data.Close()
	_ = p.Outboard.Close()
}

// PairSource reads a large object as a b3.Source. The files are in a named field,
// not embedded, so that sendfile cannot bypass verification.
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

// ReadParents implements b3.Source.
func (f PairSource) ReadParents(node int64, p []byte) (int, error) {
	n, err := b3.ReadParentsAt(f.Pair.Outboard, node, p)
	return n, ReadError(err)
}

// ReadFull fills p from the beginning of f. It returns the defect "short" if f has
// fewer bytes.
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

// Appender is a writer that writes to F at offset Off and advances Off.
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
