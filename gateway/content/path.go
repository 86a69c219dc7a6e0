package content

import (
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// target is the parsed path of /b3/{b3}/{path…}, or of /n/{name}/{path…}.
type target struct {
	root      b3.Root
	name      string   // the name, "" in a path with an address
	below     []string // the path in the value of the name, from the root on
	names     []string // unescaped path segments
	slash     bool     // the path ends with a slash
	rewritten bool     // the URL had another form of the address or a "." segment: redirect to url
}

// parseTarget parses the part of an escaped path after /b3/. It unescapes each segment
// alone. A segment must be a name: UTF-8, not empty, not "..", without slash or NUL. A "."
// segment is removed, and rewritten asks for a redirect. So no spelling of ".." gets through,
// and fs.ValidPath accepts the resulting path.
func parseTarget(escaped string) (target, error) {
	var t target
	key, rest, _ := strings.Cut(escaped, "/")
	var canonical string
	var err error
	if t.root, canonical, err = exchange.ParseObject(key); err != nil {
		return t, err
	}
	t.rewritten = canonical != ""
	return t.parsePath(escaped, rest)
}

// parseNamed parses the part of an escaped path after /n/, with the same rules. The root is set
// when the name is resolved.
func parseNamed(escaped string) (target, error) {
	key, rest, _ := strings.Cut(escaped, "/")
	name, err := url.PathUnescape(key)
	if err != nil {
		return target{}, exchange.BadEscape(err)
	}
	return target{name: name}.parsePath(escaped, rest)
}

// parsePath parses rest, the path behind the key.
func (t target) parsePath(escaped, rest string) (target, error) {
	t.slash = strings.HasSuffix(escaped, "/")
	if rest == "" {
		return t, nil
	}
	for seg := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		name, err := url.PathUnescape(seg)
		if err != nil {
			return t, exchange.BadEscape(err)
		}
		if name == "." { // removed, as RFC 3986 §5.2.4 does
			t.rewritten = true
			continue
		}
		if !fs.ValidPath(name) || strings.ContainsAny(name, "/\x00") {
			return t, status.Errorf(status.BadRequest, "the path has an invalid segment: %q is not a file name. "+
				"A segment is UTF-8, not empty and not \"..\", without slash or NUL", exchange.Clip(name))
		}
		t.names = append(t.names, name)
	}
	endsWithDot := strings.HasSuffix(rest, "/.") || strings.HasSuffix(strings.ToLower(rest), "/%2e")
	if t.rewritten && len(t.names) == 0 || endsWithDot {
		t.slash = true // "." names a directory
	}
	return t, nil
}

// path returns the path from the root, "" for the root.
func (t target) path() string {
	if len(t.below) == 0 {
		return strings.Join(t.names, "/")
	}
	return strings.Join(slices.Concat(t.below, t.names), "/")
}

// url returns the escaped path of the target, with a slash at the end if slash is true.
func (t target) url(slash bool) string { return t.escaped(slash, url.PathEscape) }

// href returns the same for a link in a page. Some programs decode no HTML entities there, so nothing in it needs one.
func (t target) href(slash bool) string { return t.escaped(slash, percentEncode) }

func (t target) escaped(slash bool, escape func(string) string) string {
	var b strings.Builder
	if t.name != "" {
		b.WriteString("/n/" + escape(t.name))
	} else {
		b.WriteString("/b3/" + t.root.String())
	}
	for _, n := range t.names {
		b.WriteString("/" + escape(n))
	}
	if slash {
		b.WriteByte('/')
	}
	return b.String()
}

// percentEncode encodes all bytes of a name but letters, digits, "-", ".", "_" and "~" (RFC 3986 §2.3).
func percentEncode(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }
