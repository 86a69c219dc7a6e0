package server

import (
	"net/http"
	"slices"
	"strings"

	"allium/internal/lazyregexp"
	"allium/protocols/status"
)

// forwardedPrefix is the header in which a trusted proxy says which beginning of the path it took away.
const forwardedPrefix = "X-Forwarded-Prefix"

// maxPrefix bounds a prefix in bytes: a page has it in each of its links.
const maxPrefix = 255

// prefixForm is the form of a prefix. Nothing in a prefix has to be escaped, in a header or in a page, and a path that
// begins with it names no other host.
var prefixForm = lazyregexp.New(`^(/[A-Za-z0-9._~-]+)*/?$`)

// parsePrefix returns a prefix without a slash at its end. ok is false for a text that is none.
func parsePrefix(text string) (prefix string, ok bool) {
	if len(text) > maxPrefix || !prefixForm().MatchString(text) {
		return "", false
	}
	names := strings.Split(text, "/")
	return strings.TrimSuffix(text, "/"), !slices.Contains(names, ".") && !slices.Contains(names, "..")
}

// checkPrefix returns bad_request for a value of gateway.prefix that is none.
func checkPrefix(text string) error {
	if _, ok := parsePrefix(text); !ok {
		return status.Errorf(status.BadRequest, "gateway.prefix is %q. Set it to a path such as /data, of letters, "+
			"digits, -, ., _ and ~ between single slashes", text)
	}
	return nil
}

// prefixOf returns what the links of an answer begin with: what a trusted proxy says, or else gateway.prefix. told
// means that the proxy said it. A value that is no prefix does not count, nor do several.
func (l *listener) prefixOf(now *live, r *http.Request) (prefix string, told bool) {
	if l.role != Public && l.role != Redirect {
		return "", false
	}
	if values := r.Header[forwardedPrefix]; len(values) == 1 && now.proxies.trust(peerOf(r)) {
		if prefix, told = parsePrefix(values[0]); told {
			return prefix, true
		}
	}
	return now.prefix, false
}

// cutPrefix cuts a prefix off an escaped path. ok is false if the path does not lie below it.
func cutPrefix(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	if rest == "" {
		return "/", ok
	}
	return rest, ok && rest[0] == '/'
}

// withoutPrefix returns a request for the path below a prefix, which holds nothing escaped.
func withoutPrefix(r *http.Request, prefix string) *http.Request {
	below, u := *r, *r.URL
	u.Path, _ = cutPrefix(u.Path, prefix)
	u.RawPath = strings.TrimPrefix(u.RawPath, prefix)
	below.URL = &u
	return &below
}
