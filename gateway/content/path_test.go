package content

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	root := b3.Sum([]byte("x"))
	r := root.String()
	for _, c := range []struct {
		in    string
		path  string
		slash bool
		fixed bool
		want  status.Outcome
	}{
		{in: r},
		{in: r + "/", slash: true},
		{in: r + "/a/b", path: "a/b"},
		{in: r + "/a/b/", path: "a/b", slash: true},
		{in: "b3%3A" + root.Hex() + "/a", path: "a"},
		{in: "b3:" + strings.ToUpper(root.Hex()) + "/a", path: "a", fixed: true},
		{in: "B3:" + root.Hex(), fixed: true},
		{in: r + "/%C3%A9t%C3%A9.txt", path: "été.txt"},
		{in: r + "/été.txt", path: "été.txt"},
		{in: r + "/a%2Cb", path: "a,b"},
		{in: r + "/a%252Cb", path: "a%2Cb"},
		{in: r + "/a%20b+c", path: "a b+c"},
		{in: r + "/...", path: "..."},
		{in: r + "/..a", path: "..a"},

		{in: "", want: status.BadAddress},
		{in: root.Hex() + "/a", path: "a", fixed: true},
		{in: root.Hex()[1:], want: status.BadAddress},
		{in: "b3:abc/x", want: status.BadAddress},
		{in: root.CID().String(), want: status.BadAddress},
		{in: r + "%2Fa", path: "a", fixed: true},
		{in: r + "/..", want: status.BadRequest},
		{in: r + "/../x", want: status.BadRequest},
		{in: r + "/%2e%2e/x", want: status.BadRequest},
		{in: r + "/.%2e", want: status.BadRequest},
		{in: r + "/%2e", slash: true, fixed: true},
		{in: r + "/a/./b", path: "a/b", fixed: true},
		{in: r + "/a/.", path: "a", slash: true, fixed: true},
		{in: r + "/./a/", path: "a", slash: true, fixed: true},
		{in: r + "//a", path: "a", fixed: true},
		{in: r + "/a//b", path: "a/b", fixed: true},
		{in: r + "//", slash: true, fixed: true},
		{in: "/" + r + "/a", path: "a", fixed: true},
		{in: r + "/..%2fetc", want: status.BadRequest},
		{in: r + "/a%2Fb", path: "a/b", fixed: true},
		{in: r + "/a%2f", path: "a", slash: true, fixed: true},
		{in: r + "/..%2f..", want: status.BadRequest},
		{in: r + "/a%2f..%2fb", want: status.BadRequest},
		{in: r + "/a%252fb", path: "a%2fb"},
		{in: r + "/..%5c..%5cx", path: `..\..\x`},
		{in: r + "/a%5Cb", path: `a\b`},
		{in: r + "/a%00", want: status.BadRequest},
		{in: r + "/%ff", want: status.BadRequest},
		{in: r + "/%zz", want: status.BadRequest},
		{in: r + "/%", want: status.BadRequest},
	} {
		got, err := parseTarget(c.in)
		if c.want != status.OK {
			if status.Of(err) != c.want {
				t.Errorf("%q: %v, want %s", c.in, err, c.want)
			}
			continue
		}
		fixed := got.rewritten || got.uneven
		if err != nil || got.root != root || got.path() != c.path || got.slash != c.slash || fixed != c.fixed {
			t.Errorf("%q: %+v (%v)", c.in, got, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	r := b3.Sum(nil).String()
	for _, s := range []string{"", "/", "/a/b/", "/..%2f", "/%2e%2e", "/%5c", "/%00", "/%C3%A9", "/a%252Cb", "//"} {
		f.Add(r + s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := parseTarget(in)
		if err != nil {
			if o := status.Of(err); o != status.BadRequest && o != status.BadAddress {
				t.Errorf("outcome %s", o)
			}
			return
		}
		if p := got.path(); p != "" &&
			(!fs.ValidPath(p) || p == "." || strings.ContainsAny(p, "\x00") || !utf8.ValidString(p)) {
			t.Errorf("path %q", p)
		}
		// What a redirect would say names the same thing.
		u, err := url.Parse(got.url(got.slash))
		if err != nil || u.Host != "" {
			t.Fatalf("%q redirects to %q: %v", in, got.url(got.slash), err)
		}
		again, err := parseTarget(strings.TrimPrefix(u.EscapedPath(), "/b3/"))
		if err != nil || again.path() != got.path() || again.root != got.root || again.slash != got.slash {
			t.Errorf("%q becomes %q, which is %+v (%v)", in, u.EscapedPath(), again, err)
		}
	})
}
