package pages

import (
	"encoding/json"
	"fmt"
	"io"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// JSON is the [Writer] of {"root","path","entries":[…]}, an [api.Listing].
type JSON struct {
	Root b3.Root // of the directory
	Path string  // of the directory below its root

	n int // entries so far
}

// Head implements [Writer].
func (l *JSON) Head(w io.Writer) error {
	path, err := json.Marshal(l.Path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"root":%q,"path":%s,"entries":[`, l.Root, path)
	return err
}

// Begin implements [Writer].
func (l *JSON) Begin(io.Writer, Order, *Totals) error { return nil }

// Entry implements [Writer].
func (l *JSON) Entry(w io.Writer, e *manifest.Entry) error {
	line, err := json.Marshal(api.Entry{
		Name: e.Name, Kind: api.Kind(e.Kind.String()), Root: e.Root, Size: e.Size,
		Executable: e.Executable, Target: e.Target,
	})
	if err != nil {
		return err
	}
	sep := ",\n"
	if l.n == 0 {
		sep = "\n"
	}
	l.n++
	_, err = fmt.Fprintf(w, "%s%s", sep, line)
	return err
}

// Foot implements [Writer].
func (l *JSON) Foot(w io.Writer) error {
	_, err := io.WriteString(w, "\n]}\n")
	return err
}
