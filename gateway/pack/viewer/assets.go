package viewer

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

// AssetsPath is the path of the assets, with a slash at its end.
const AssetsPath = "/edge/map/"

//go:embed assets/*.gz
var assetFiles embed.FS

// asset is a file that the page loads. It never changes.
type asset struct {
	name      string // its last path element: a word, 16 hex digits of its digest, and the extension
	media     string
	policy    string // its Content-Security-Policy; that of the worker bounds what the worker requests
	integrity string // the digest as a page names it
	packed    []byte // compressed with gzip
	// plain returns the bytes for a client that does not accept gzip. It keeps them: at most 2 MiB in all.
	plain func() ([]byte, error)
}

// assetSet holds the assets.
type assetSet struct{ script, worker, licence *asset }

// assets returns the assets. They are read for the first page: most commands show none.
var assets = sync.OnceValue(func() assetSet {
	const nothing = "default-src 'none'"
	return assetSet{
		script:  mustAsset("viewer.js", "text/javascript; charset=utf-8", nothing),
		worker:  mustAsset("worker.js", "text/javascript; charset=utf-8", nothing+"; connect-src 'self'"),
		licence: mustAsset("maplibre-licence.txt", "text/plain; charset=utf-8", nothing),
	}
})

// mustAsset returns the asset of an embedded file. It panics for a damaged one, which no build that was tested has.
func mustAsset(file, media, policy string) *asset {
	packed, err := assetFiles.ReadFile("assets/" + file + ".gz")
	if err != nil {
		panic(err)
	}
	digest := sha256.New()
	if err := decompress(digest, packed); err != nil {
		panic(fmt.Errorf("asset %s: %w", file, err))
	}
	sum := digest.Sum(nil)
	word, ext, _ := strings.Cut(file, ".")
	return &asset{
		name: word + "-" + hex.EncodeToString(sum[:8]) + "." + ext, media: media, policy: policy, packed: packed,
		integrity: "sha256-" + base64.StdEncoding.EncodeToString(sum),
		plain: sync.OnceValues(func() ([]byte, error) {
			var out bytes.Buffer
			err := decompress(&out, packed)
			return out.Bytes(), err
		}),
	}
}

// decompress writes the bytes that packed holds.
func decompress(to io.Writer, packed []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, z) //nolint:gosec // the program's own bytes
	return err
}

// find returns the asset of a name, or nil.
func (s assetSet) find(name string) *asset {
	for _, a := range []*asset{s.script, s.worker, s.licence} {
		if a.name == name {
			return a
		}
	}
	return nil
}

// Endpoint returns the route of the assets.
func Endpoint() exchange.Endpoint {
	fresh := []string{
		"ETag", "Cache-Control", "Vary", "Content-Security-Policy", "Cross-Origin-Resource-Policy",
	}
	return exchange.Endpoint{
		ID: "mapAsset", Name: "map_asset", Methods: exchange.Reading, Path: AssetsPath + "{file}",
		On: exchange.OnPublic, AnyQuery: true,
		Doc:     "Returns a file that the page of a pack loads. Its name has its digest, so it never changes.",
		Headers: []string{"If-Match", "If-None-Match", "Accept-Encoding"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaAny},
				Headers: append(slices.Clone(fresh), "Content-Encoding"), Doc: "the file",
			},
			{Code: http.StatusNotModified, Headers: fresh, Doc: "the client's copy is current"},
		},
		Fails: []status.Outcome{status.NotFound, status.Precondition},
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error { return serve(w, r, in.Rest) },
	}
}

// serve sends an asset.
func serve(w *exchange.Response, r *http.Request, name string) error {
	a := assets().find(name)
	if a == nil {
		return status.Errorf(status.NotFound, "the maps of this version of the program have no file %q. "+
			"Load the page of the pack again", exchange.Clip(name))
	}
	h := w.Header()
	h.Set("Cache-Control", exchange.Immutable)
	h.Set("Content-Security-Policy", a.policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Encoding")
	etag, packed := `"`+a.name+`"`, exchange.AcceptsCoding(r, "gzip")
	if packed {
		etag = `"` + a.name + `.gz"`
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
		return w.Send(r, http.StatusOK, a.media, a.packed)
	}
	plain, err := a.plain()
	if err != nil {
		return fmt.Errorf("decompress the file %s: %w", a.name, err)
	}
	return w.Send(r, http.StatusOK, a.media, plain)
}
