package origin

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzJoin: the URL of any path that is not refused lies below the base URL, on its host, and means that path.
func FuzzJoin(f *testing.F) {
	for _, s := range []string{
		"", "a", "a/b/", "../a", "a%2fb", "//x", "a?b#c", "é", "a:b", "@", "a;b", "%", "\x00", "a//",
	} {
		f.Add(s)
	}
	base, err := parseBase("https://example.com/base/", false)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if checkPath(p) != nil {
			return
		}
		u, err := url.Parse(join(base, p).String())
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		if u.Host != "example.com" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Path != "/base/"+p {
			t.Errorf("%q became %s", p, u)
		}
		if clean := path.Clean(u.Path); clean != strings.TrimSuffix(u.Path, "/") {
			t.Errorf("%q is cleaned to %s", p, clean)
		}
	})
}
