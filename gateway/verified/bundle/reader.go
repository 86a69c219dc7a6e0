package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"allium/protocols/b3"
	"allium/protocols/bao"
)

// Reader reads a bundle. One goroutine uses it. After an error every call returns it.
//
// An error wraps b3.ErrCorrupt if the stream is no bundle of the directory or proves nothing, and otherwise is that of
// the reader below, with io.ErrUnexpectedEOF for a stream that was cut.
type Reader struct {
	src   io.Reader
	root  b3.Root
	begun bool
	err   error
	head  [recordSize]byte
}

// NewReader returns a Reader of the bundle of the directory root in src. It reads nothing yet.
func NewReader(root b3.Root, src io.Reader) *Reader {
	return &Reader{src: wholeReader{src}, root: root}
}

// Object returns the object root, whose number in the walk is number and which has size bytes, −1 if unknown. ok is
// false if the bundle leaves it out. The record of another object is corrupt, and so is an object of more
// than MaxBody bytes. The caller owns p.
func (r *Reader) Object(number uint32, root b3.Root, size int64) (p []byte, ok bool, err error) {
	if r.err == nil {
		p, ok, r.err = r.object(number, root, size)
	}
	if r.err != nil {
		return nil, false, r.err
	}
	return p, ok, nil
}

func (r *Reader) object(number uint32, root b3.Root, size int64) ([]byte, bool, error) {
	got, err := r.next()
	if err != nil {
		return nil, false, err
	}
	if got.kind == kindEnd || got.number != number || got.root != root {
		return nil, false, r.corrupt("record %d of %s comes where object %d, %s, is due",
			got.number, got.root, number, root)
	}
	if got.kind == kindLeftOut {
		return nil, false, nil
	}
	var claim [sizeBytes]byte
	if _, err := io.ReadFull(r.src, claim[:]); err != nil {
		return nil, false, err
	}
	n := binary.LittleEndian.Uint64(claim[:])
	if n > MaxBody || size >= 0 && n != uint64(size) {
		return nil, false, r.corrupt("object %d, %s, says that it has %d bytes", number, root, n)
	}
	length, err := bao.Len(int64(n), b3.Range{End: -1})
	if err != nil {
		return nil, false, err
	}
	d := bao.NewDecoder(root, b3.Range{End: -1}, io.MultiReader(
		bytes.NewReader(claim[:]), io.LimitReader(r.src, length-sizeBytes)))
	defer d.Close()
	p := make([]byte, n)
	if _, err := io.ReadFull(d, p); err != nil {
		return nil, false, err
	}
	if _, err := d.Read(claim[:1]); !errors.Is(err, io.EOF) { // proves the end, and the empty object
		return nil, false, err
	}
	return p, true, nil
}

// End reads the last record, and the end of the stream. total is the number of objects in the tree.
func (r *Reader) End(total uint32) error {
	if r.err != nil {
		return r.err
	}
	r.err = r.end(total)
	return r.err
}

func (r *Reader) end(total uint32) error {
	got, err := r.next()
	if err != nil {
		return err
	}
	if got.kind != kindEnd || got.number != total || got.root != r.root {
		return r.corrupt("record %d of %s comes where the end is due, after %d objects", got.number, got.root, total)
	}
	if n, err := io.ReadFull(r.src, r.head[:1]); n > 0 {
		return r.corrupt("more bytes follow its end")
	} else if !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return nil
}

// next reads the next record, and before the first one the header.
func (r *Reader) next() (record, error) {
	if !r.begun {
		var header [headerSize]byte
		if _, err := io.ReadFull(r.src, header[:]); err != nil {
			return record{}, err
		}
		if string(header[:len(Magic)]) != Magic || b3.Root(header[len(Magic):]) != r.root {
			return record{}, r.corrupt("it does not begin as its bundle")
		}
		r.begun = true
	}
	if _, err := io.ReadFull(r.src, r.head[:]); err != nil {
		return record{}, err
	}
	got := decodeRecord(r.head[:])
	if got.kind > kindLeftOut {
		return got, r.corrupt("it has a record of the unknown kind %d", got.kind)
	}
	return got, nil
}

func (r *Reader) corrupt(format string, args ...any) error {
	return fmt.Errorf("verify the bundle of %s: %s: %w", r.root, fmt.Sprintf(format, args...), b3.ErrCorrupt)
}

// wholeReader is a reader whose end is unexpected, because a bundle ends before its stream does.
type wholeReader struct{ r io.Reader }

func (w wholeReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err == io.EOF { // an error that wraps io.EOF is no regular end
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
