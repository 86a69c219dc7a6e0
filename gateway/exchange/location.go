package exchange

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// BadEscape returns the error of a URL path that is not properly percent-encoded.
func BadEscape(err error) error {
	return status.Errorf(status.BadRequest, "cannot read the path: %w. Write %%25 for a percent sign", err)
}

// ParseObject parses the address in an escaped path. If the address has uppercase digits,
// ParseObject returns it in lowercase as lower instead.
func ParseObject(rest string) (root b3.Root, lower string, err error) {
	key, err := url.PathUnescape(rest)
	if err != nil {
		return root, "", BadEscape(err)
	}
	root, err = b3.Parse(key)
	if err == nil {
		return root, "", nil
	}
	if l := strings.ToLower(key); l != key {
		if _, lowerErr := b3.Parse(l); lowerErr == nil {
			return root, l, nil
		}
	}
	return root, "", err
}

// Immutable is the Cache-Control of content that is named by its address.
const Immutable = "public, max-age=31536000, immutable"

// Redirect redirects the client to another path of this listener, with the same query.
func (w *Response) Redirect(r *http.Request, code int, path string) error {
	if r.URL.RawQuery != "" {
		path += "?" + EscapeQuery(r.URL.RawQuery)
	}
	h := w.Header()
	h.Set("Location", path)
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
