package content

import (
	"cmp"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"allium/gateway/content/pages"
	"allium/gateway/exchange"
	"allium/gateway/site"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// target is the parsed path of /b3/{b3}/{path…}, or of /n/{name}/{path…}.
type target struct {
	root      b3.Root
	name      string     // the name, "" in a path with an address
	below     []string   // the path in the value of the name, from the root on
	names     []string   // unescaped path segments
	slash     bool       // the path ends with a slash
	rewritten bool       // the URL had another form of the address or name: redirect to url
	uneven    bool       // the path had an escaped slash, or a segment that was left out
	site      *site.Site // the website whose host has the root; nil for other paths
	asset     string     // the escaped path of the source of an asset, which has no pages; "" for other paths
	mount     *Mount     // what the path lies below; nil for other paths
	called    string     // what the query calls the directory of an address alone; may be empty
}

// parseTarget parses the part of an escaped path after /b3/. It unescapes the path once, so that %2F is a slash. It
// leaves out segments that are empty or ".". All others must be names: UTF-8, not "..", without NUL. So no spelling of
// ".." gets through, and fs.ValidPath accepts the resulting path.
func parseTarget(escaped string) (target, error) {
	key, t, err := parsePath(escaped)
	root, canonical, badKey := exchange.ParseObject(url.PathEscape(key))
	t.root, t.rewritten = root, canonical != ""
	if err == nil || key != "" && badKey != nil { // of two faults, the first one
		err = badKey
	}
	return t, err
}

// parseNamed parses the part of an escaped path after /n/, with the same rules. The root is set
// when the name is resolved.
func parseNamed(escaped string) (target, error) {
	key, t, err := parsePath(escaped)
	t.name = key
	return t, err
}

// parsePath returns the first segment of an escaped path, and a target with those behind it.
func parsePath(escaped string) (key string, t target, err error) {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return "", t, exchange.BadEscape(err)
	}
	trimmed := strings.TrimLeft(path, "/")
	t.uneven = trimmed != path || strings.Count(path, "/") != strings.Count(escaped, "/")
	key, rest, _ := strings.Cut(trimmed, "/")
	t.slash = strings.HasSuffix(path, "/") || rest == "." || strings.HasSuffix(rest, "/.") // "." names a directory
	if rest == "" {
		return key, t, nil
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		switch {
		case name == "" || name == ".":
			t.uneven = true
		case !fs.ValidPath(name) || strings.ContainsRune(name, 0):
			return key, t, status.Errorf(status.BadRequest, "the path has an invalid segment: %q is not a file name. "+
				"A segment is UTF-8 and not \"..\", without NUL", exchange.Clip(name))
		default:
			t.names = append(t.names, name)
		}
	}
	return key, t, nil
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
func (t target) href(slash bool) string { return t.escaped(slash, exchange.PercentEncode) }

func (t target) escaped(slash bool, escape func(string) string) string {
	var b strings.Builder
	switch {
	case t.site != nil:
		if slash = slash || len(t.names) == 0; len(t.names) == 0 {
			return "/"
		}
	case t.mount != nil: // the prefix has its path
	case t.asset != "":
		b.WriteString(t.asset)
	case t.name != "":
		b.WriteString("/n/" + escape(t.name))
	default:
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

// shorten returns the first 8 digits of an address: "b3:1a2b3c4d…".
func shorten(r b3.Root) string { return r.String()[:len("b3:")+8] + "…" }

// nameless reports whether an address alone names what t does.
func (t target) nameless() bool { return len(t.names) == 0 && t.name == "" && t.mount == nil }

// top returns the top of the page of t.
func (t target) top(f exchange.Frame, shared pages.Shared) pages.Top {
	s := pages.Subject{
		Root: cmp.Or(t.name, t.called, shorten(t.root)), Bare: t.name == "" && t.called == "", Path: t.names,
		Prove: t.site == nil, Above: func(names int) string {
			above := t
			above.names = t.names[:names]
			return above.href(true)
		},
	}
	f.NoIcon = t.site != nil
	if t.mount != nil {
		s.Root, s.Bare = t.mount.Name, false
		f.Base = strings.TrimSuffix(f.Prefix, t.mount.Path)
	}
	return pages.NewTop(s, f, shared)
}

// TicketFor is an object that a page offers a ticket of.
type TicketFor struct {
	Root      b3.Root
	Directory bool
	Size      int64  // bytes of the object; for a directory, of its first manifest
	Name      string // suggested for the output; may be empty
}

// sharing says how others can get an object of this node.
type sharing struct {
	ticket  func(TicketFor) string // nil: there are no tickets
	example b3.Root                // in no store; zero: none
}

// shared returns how to get the object root, which t names. The example is in no store, so no other node gets it from
// this one.
func (s sharing) shared(t target, root b3.Root, directory bool, size int64) pages.Shared {
	if t.mount != nil {
		return pages.Shared{Note: t.mount.Note}
	}
	if !s.example.IsZero() && t.root == s.example {
		return pages.Shared{Address: root.String()}
	}
	key := cmp.Or(t.name, t.root.String())
	if p := strings.Join(t.names, "/"); p != "" {
		key += "/" + p
	}
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = root.String()
	}
	how := pages.Shared{Address: root.String(), Command: "allium get " + pages.Quote(key)}
	if s.ticket != nil {
		o := TicketFor{Root: root, Directory: directory, Size: size}
		if len(t.names) > 0 {
			o.Name = t.names[len(t.names)-1]
		} else {
			o.Name = t.called
		}
		how.Ticket = s.ticket(o)
	}
	return how
}
