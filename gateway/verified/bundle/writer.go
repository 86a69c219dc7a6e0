package bundle

import (
	"encoding/binary"
	"io"

	"allium/protocols/b3"
)

// Writer writes a bundle. One goroutine uses it.
type Writer struct {
	w    io.Writer
	root b3.Root
	buf  []byte // what precedes the next write
}

// NewWriter returns a Writer of a bundle of the directory root. It writes nothing before the first record has bytes.
func NewWriter(w io.Writer, root b3.Root) *Writer {
	return &Writer{w: w, root: root, buf: append([]byte(Magic), root[:]...)}
}

// Object writes an object with the verified encoding that encode writes. If encode fails before its first byte, began
// is false, and the caller may call LeftOut for the object.
func (w *Writer) Object(number uint32, root b3.Root, encode func(io.Writer) error) (began bool, err error) {
	o := &objectWriter{w: w, head: record{kindObject, number, root}}
	err = encode(o)
	return o.began, err
}

// Small writes an object of at most one chunk group, which the caller has verified.
func (w *Writer) Small(number uint32, root b3.Root, p []byte) error {
	w.buf = record{kindObject, number, root}.append(w.buf)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(len(p)))
	return w.write(p)
}

// LeftOut says that the bundle does not have an object.
func (w *Writer) LeftOut(number uint32, root b3.Root) error {
	w.buf = record{kindLeftOut, number, root}.append(w.buf)
	return w.write(nil)
}

// End writes the last record. total is the number of objects in the tree, also of those that were not asked for.
func (w *Writer) End(total uint32) error {
	w.buf = record{kindEnd, total, w.root}.append(w.buf)
	return w.write(nil)
}

// write writes what is buffered, and p.
func (w *Writer) write(p []byte) error {
	w.buf = append(w.buf, p...)
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// objectWriter writes the head of a record before the first bytes of an encoding.
type objectWriter struct {
	w     *Writer
	head  record
	began bool
}

func (o *objectWriter) Write(p []byte) (int, error) {
	if !o.began {
		o.began = true
		o.w.buf = o.head.append(o.w.buf)
	}
	if err := o.w.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
