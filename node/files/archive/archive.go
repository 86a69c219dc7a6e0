// Package archive reads the entries of archives that any program made: tars, zips and the files of a
// form. It says what each entry is and judges only what the archive's format makes impossible. Whether a
// directory may have an entry of that name is for the caller to decide.
//
// Invariants:
//
//   - A reader needs memory for the list of a zip and for one entry at a time.
//   - An archive that is cut short ends with bad_request, and never with io.EOF.
//   - The decompressed size of a zip is bounded before its first entry is read.
package archive

import (
	"io"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// Entry is one file, directory or link of an archive.
type Entry struct {
	Name       string // as the archive spells it, slash-separated
	Kind       manifest.EntryKind
	Executable bool
	Target     string // of a link

	// Root is the address of a file whose bytes the archive does not have; zero: it has them.
	Root b3.Root
	// Body gives the bytes of a file until the next call of Next.
	Body io.Reader
	Size int64 // bytes in Body; −1: not known

	// Problem says why no directory can hold such an entry; empty: nothing in its kind forbids it.
	Problem string
}

// Reader reads an archive. One goroutine uses it.
type Reader interface {
	// Next returns the next entry, and io.EOF after the last one. A malformed archive is bad_request. An
	// outcome of the stream below stays as it is.
	Next() (Entry, error)
	// Consumed returns how many bytes of the archive were read.
	Consumed() int64
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
