package content

import (
	"io/fs"
	"net/url"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// target is what /b3/{b3}/{path…} names.
type target struct {
	root  b3.Root
	names []string // unescaped path segments
	slash bool     // the path ends with one
	fixed bool     // the address had uppercase digits, or the path a ".": redirect to the right one
}

// parseTarget takes apart what follows /b3/ in an escaped path. Each segment
// is unescaped alone and must be a name: not empty, not "..", without slash
// or NUL, and UTF-8; "." is left out, by a redirect. So no spelling of ".." gets through, and
// what comes out is a path for fs.ValidPath.
func parseTarget(escaped string) (target, error) {
	var t target
	key, rest, _ := strings.Cut(escaped, "/")
	key, err := url.PathUnescape(key)
	if err != nil {
		return t, status.Errorf(status.BadRequest, "the path is not well escaped: %w", err)
	}
	if t.root, err = b3.Parse(key); err != nil {
		root, lowerErr := b3.Parse(strings.ToLower(key))
		if lowerErr != nil {
			return t, err
		}
		t.root, t.fixed = root, true
	}
	t.slash = strings.HasSuffix(escaped, "/")
	if rest == "" {
		return t, nil
	}
	for seg := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		name, err := url.PathUnescape(seg)
		if err != nil {
			return t, status.Errorf(status.BadRequest, "the path is not well escaped: %w", err)
		}
		if name == "." { // means nothing: RFC 3986 §5.2.4
			t.fixed = true
			continue
		}
		if !fs.ValidPath(name) || strings.ContainsAny(name, "/\x00") {
			return t, status.Errorf(status.BadRequest, "%q in the path is not a name", exchange.Clip(name))
		}
		t.names = append(t.names, name)
	}
	if t.fixed && len(t.names) == 0 || strings.HasSuffix(rest, "/.") || strings.HasSuffix(rest, "/%2e") || strings.HasSuffix(rest, "/%2E") {
		t.slash = true // it named a directory
	}
	return t, nil
}

// path is the names joined, "" for the root.
func (t target) path() string { return strings.Join(t.names, "/") }

// url is the target's own path, escaped.
func (t target) url(slash bool) string {
	var b strings.Builder
	b.WriteString("/b3/" + t.root.String())
	for _, n := range t.names {
		b.WriteString("/" + url.PathEscape(n))
	}
	if slash {
		b.WriteByte('/')
	}
	return b.String()
}
