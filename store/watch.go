package store

import (
	"io"

	"allium/protocols/b3"
	"allium/store/meta"
)

// groupReader returns at most a group at a time, so that a watched put writes each group as soon as it is there.
type groupReader struct{ r io.Reader }

// Read implements [io.Reader].
func (g groupReader) Read(p []byte) (int, error) { return g.r.Read(p[:min(len(p), b3.GroupSize)]) }

// watchedWriter appends to a file and tells watch how much it has.
type watchedWriter struct {
	to    *meta.Appender
	file  io.ReaderAt
	watch Watch
}

// Write implements [io.Writer].
func (w watchedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if n > 0 {
		w.watch.Arrived(w.file, w.to.Off)
	}
	return n, err
}
