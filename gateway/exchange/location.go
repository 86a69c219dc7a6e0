package exchange

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// ParseObject reads the address in an escaped path. Of one with uppercase
// digits it gives what it should be instead.
func ParseObject(rest string) (root b3.Root, lower string, err error) {
	key, err := url.PathUnescape(rest)
	if err != nil {
		return root, "", status.Errorf(status.BadRequest, "the path is not well escaped: %w", err)
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

// Immutable is the Cache-Control of what an address stands for.
const Immutable = "public, max-age=31536000, immutable"

// Redirect sends the client elsewhere on this listener, with its query.
func (w *Response) Redirect(r *http.Request, code int, path string) error {
	if r.URL.RawQuery != "" {
		path += "?" + EscapeQuery(r.URL.RawQuery)
	}
	h := w.Header()
	h.Set("Location", path)
	h.Set("Cache-Control", Immutable)
	h.Set("Content-Length", "0") // of HEAD too
	w.WriteHeader(code)
	return nil
}

// EscapeQuery escapes what a query may not hold (RFC 3986 §3.4) and leaves the
// rest as it is: clients send more than they may, and a header must not.
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
