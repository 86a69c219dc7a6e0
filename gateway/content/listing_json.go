package content

import (
	"encoding/json"
	"fmt"
	"io"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// jsonListing writes {"root","path","entries":[…]}, an api.Listing.
type jsonListing struct {
	target target
	root   b3.Root
	n      int
}

func (l *jsonListing) head(w io.Writer) error {
	path, err := json.Marshal(l.target.path())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"root":%q,"path":%s,"entries":[`, l.root, path)
	return err
}

func (l *jsonListing) begin(io.Writer, order) error { return nil }

func (l *jsonListing) entry(w io.Writer, e *manifest.Entry) error {
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

func (l *jsonListing) foot(w io.Writer) error {
	_, err := io.WriteString(w, "\n]}\n")
	return err
}
