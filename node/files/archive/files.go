package archive

import (
	"bytes"
	"io"

	"allium/protocols/manifest"
)

// smallFile is the number of bytes of a file that are read ahead to learn whether that is all of it.
const smallFile = 64 << 10

// Files reads files that come one after the other, such as those of a form. It knows the size of a file of
// at most 64 KiB, and not of a larger one.
type Files struct {
	next func() (name string, body io.Reader, err error)
	buf  []byte
	read int64
}

// NewFiles returns a reader of the files that next returns, io.EOF after the last one. A body is read until
// its end before the next call.
func NewFiles(next func() (name string, body io.Reader, err error)) *Files {
	return &Files{next: next, buf: make([]byte, smallFile+1)}
}

// Consumed implements Reader. It counts the contents of the files.
func (f *Files) Consumed() int64 { return f.read }

// Next implements Reader.
func (f *Files) Next() (Entry, error) {
	name, body, err := f.next()
	if err != nil {
		return Entry{}, err
	}
	n := 0 // not by io.ReadFull: its error for a short file is that of a body which was cut
	for n < len(f.buf) && err == nil {
		var some int
		some, err = body.Read(f.buf[n:])
		n += some
	}
	f.read += int64(n)
	e := Entry{Name: name, Kind: manifest.File, Body: bytes.NewReader(f.buf[:n]), Size: int64(n)}
	switch {
	case n == len(f.buf):
		e.Body, e.Size = io.MultiReader(e.Body, &rest{body, &f.read}), -1
	case err != io.EOF: //nolint:errorlint // an error that wraps io.EOF is no regular end
		return Entry{}, err
	}
	return e, nil
}

// rest reads what is behind the buffered bytes, and counts it.
type rest struct {
	r io.Reader
	n *int64
}

func (r *rest) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	*r.n += int64(n)
	return n, err
}
