package exchange

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// BadEscape returns the error of a URL path that is not properly percent-encoded.
func BadEscape(err error) error {
	return status.Errorf(status.BadRequest, "cannot read the path: %w. Write %%25 for a percent sign", err)
}

// ParseObject parses the address in an escaped path. If it is written in another form than its
// one form b3:<hex>, redirect is that form: each object has one URL, for the sake of caches.
func ParseObject(rest string) (root b3.Root, redirect string, err error) {
	key := rest
	if strings.Contains(rest, "%") {
		if key, err = url.PathUnescape(rest); err != nil {
			return root, "", BadEscape(err)
		}
	}
	if root, err = b3.Parse(key); err == nil {
		return root, "", nil
	}
	if root, anyErr := address.Root(strings.ToLower(key)); anyErr == nil {
		return root, root.String(), nil
	}
	return root, "", err
}

// KeyObject returns the object that a key names, in any form in which people write one. It is zero
// if the key is malformed, is a name, or has a path.
func KeyObject(key string) (root b3.Root) {
	if key, err := address.Canonical(key); err == nil {
		root, _ = b3.Parse(key)
	}
	return root
}

// Immutable is the Cache-Control of content that is named by its address.
const Immutable = "public, max-age=31536000, immutable"

// Redirect redirects the client to another path of this listener, below its prefix, with the same query.
func (w *Response) Redirect(r *http.Request, code int, path string) error {
	if r.URL.RawQuery != "" {
		path += "?" + EscapeQuery(r.URL.RawQuery)
	}
	h := w.Header()
	h.Set("Location", w.Prefix+path)
	h.Set("Cache-Control", cmp.Or(w.Caching, Immutable))
	h.Set("Content-Length", "0") // for HEAD too
	w.WriteHeader(code)
	return nil
}

// EscapeQuery escapes the characters that a query must not contain (RFC 3986 §3.4). Clients
// send them all the same, and a Location header must not.
func EscapeQuery(query string) string {
	const may = "!$%&'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
	if strings.Trim(query, may) == "" {
		return query
	}
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; strings.IndexByte(may, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
