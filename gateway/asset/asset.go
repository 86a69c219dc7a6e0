// Package asset serves the files that pages load and that the program has in it, such as scripts. They are kept
// compressed with gzip. A file has its digest in its name, so a client may keep it for good, and a page of another
// version of the program loads files of other names.
package asset

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// NoPolicy is the Content-Security-Policy of a file that loads nothing.
const NoPolicy = "default-src 'none'"

// The media types of most assets.
const (
	Script = "text/javascript; charset=utf-8"
	Text   = "text/plain; charset=utf-8"
)

// Asset is a file that a page loads. It never changes.
type Asset struct {
	Name   string // its last path element: a word, 16 hex digits of its digest, and the extension
	Media  string
	Policy string // its Content-Security-Policy; that of a worker bounds what the worker requests
	// PolicyFor returns the Content-Security-Policy for a request whose query changes it. nil: it is Policy.
	PolicyFor func(r *http.Request) string
	Integrity string // the digest as a page and a policy name it
	Packed    []byte // compressed with gzip
	// Plain returns the bytes for a client that does not accept gzip. It keeps them.
	Plain func() ([]byte, error)
}

// New returns the asset of an embedded file, which files has compressed with gzip as assets/FILE.gz. New panics for one
// that is missing or damaged, which no build that was tested has.
func New(files embed.FS, file, media, policy string) *Asset {
	digest := sha256.New()
	packed, err := files.ReadFile("assets/" + file + ".gz")
	if err == nil {
		err = decompress(digest, packed)
	}
	if err != nil {
		panic(fmt.Errorf("asset %s: %w", file, err))
	}
	sum := digest.Sum(nil)
	word, ext, _ := strings.Cut(file, ".")
	return &Asset{
		Name: word + "-" + hex.EncodeToString(sum[:8]) + "." + ext, Media: media, Policy: policy, Packed: packed,
		Integrity: integrity(sum),
		Plain: sync.OnceValues(func() ([]byte, error) {
			var out bytes.Buffer
			err := decompress(&out, packed)
			return out.Bytes(), err
		}),
	}
}

// Digest returns the SHA-256 of a style sheet as a policy names it.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return integrity(sum[:])
}

// integrity returns a SHA-256 as pages and policies name it.
func integrity(sum []byte) string { return "sha256-" + base64.StdEncoding.EncodeToString(sum) }

// decompress writes the bytes that packed holds.
func decompress(to io.Writer, packed []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, z) //nolint:gosec // the program's own bytes
	return err
}

// Set holds the assets of one page, or of several of one kind.
type Set struct {
	Of  string // what the assets are of, for the error of one that is missing: "the maps", "the console"
	All []*Asset
}

// Endpoint returns the route of assets below a path with a slash at its end. set is called by each request.
func Endpoint(id, name, path, doc string, on exchange.Listeners, set func() Set) exchange.Endpoint {
	fresh := []string{
		"ETag", "Cache-Control", "Vary", "Content-Security-Policy", "Cross-Origin-Resource-Policy",
	}
	return exchange.Endpoint{
		ID: id, Name: name, Methods: exchange.Reading, Path: path + "{file}", On: on, AnyQuery: true,
		Doc:     doc + " Its name has its digest, so it never changes.",
		Headers: []string{"If-Match", "If-None-Match", "Accept-Encoding"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaAny},
				Headers: append(slices.Clone(fresh), "Content-Encoding"), Doc: "the file",
			},
			{Code: http.StatusNotModified, Headers: fresh, Doc: "the client's copy is current"},
		},
		Fails: []status.Outcome{status.NotFound, status.Precondition},
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			return set().serve(w, r, in.Rest)
		},
	}
}

// serve sends an asset.
func (s Set) serve(w *exchange.Response, r *http.Request, name string) error {
	i := slices.IndexFunc(s.All, func(a *Asset) bool { return a.Name == name })
	if i < 0 {
		return status.Errorf(status.NotFound, "there is no file %q for %s of this version of the program. "+
			"Load the page again", exchange.Clip(name), s.Of)
	}
	a := s.All[i]
	h := w.Header()
	h.Set("Cache-Control", exchange.Immutable)
	h.Set("Content-Security-Policy", a.Policy)
	if a.PolicyFor != nil {
		h.Set("Content-Security-Policy", a.PolicyFor(r))
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Encoding")
	etag, packed := `"`+a.Name+`"`, exchange.AcceptsCoding(r, "gzip")
	if packed {
		etag = `"` + a.Name + `.gz"`
	}
	h.Set("ETag", etag)
	switch exchange.Evaluate(r, etag) {
	case status.Precondition:
		return exchange.IfMatchFailed(etag)
	case status.NotModified:
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if packed {
		h.Set("Content-Encoding", "gzip")
		return w.Send(r, http.StatusOK, a.Media, a.Packed)
	}
	plain, err := a.Plain()
	if err != nil {
		return fmt.Errorf("decompress the file %s: %w", a.Name, err)
	}
	return w.Send(r, http.StatusOK, a.Media, plain)
}
