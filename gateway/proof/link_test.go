package proof

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"allium/protocols/status"
)

// TestGateways reads the gateways of links.
func TestGateways(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("https://a.example,", 20)
	for query, want := range map[string][]string{
		"":                       nil,
		"from=":                  nil,
		"from=https://A.example": {"https://a.example"},
		"from=https://a.example/&from=,http://127.0.0.1:81,": {"https://a.example", "http://127.0.0.1:81"},
		"from=" + many: {"https://a.example"},
		"from=http://[::1]:8080,https://a-b.c.example:65535": {"http://[::1]:8080", "https://a-b.c.example:65535"},
		"from=%20https://xn--bcher-kva.example%20":           {"https://xn--bcher-kva.example"},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := gateways(q); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", query, got, err)
		}
	}
	for _, bad := range []string{
		"*", "https:", "https://", "a.example", "//a.example", "ftp://a.example", "https://*.example",
		"https://a.example/o", "https://a.example?x", "https://a.example#x", "https://u@a.example",
		"https://a.example;x", "https://a.example 'self'", "https://a'b", "https://a.example:0",
		"https://a.example:65536", "https://a.example:", "https://-a", "https://a.",
		"https://bücher.example", "https://[::1", "https://[a;b]", "javascript:x", "data:", "'unsafe-inline'",
		"https://" + strings.Repeat("a", 300),
	} {
		if got, err := gateways(url.Values{"from": {bad}}); status.Of(err) != status.BadRequest {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
	nine := url.Values{}
	for _, c := range "abcdefghi" {
		nine.Add("from", "https://"+string(c))
	}
	if _, err := gateways(nine); status.Of(err) != status.BadRequest {
		t.Errorf("nine gateways: %v", err)
	}
}

// FuzzLink: what a link names never breaks out of a policy or of a directory.
func FuzzLink(f *testing.F) {
	f.Add("https://a.example:81,http://[::1]", "photo.jpg")
	f.Add("https://a.example;script-src *", "../../x\x00\u202e.exe")
	f.Fuzz(func(t *testing.T, from, name string) {
		if all, err := gateways(url.Values{"from": {from}}); err == nil {
			for _, o := range all {
				u, err := url.Parse(o)
				if err != nil || u.Scheme+"://"+u.Host != o || u.Hostname() == "" ||
					strings.ContainsAny(o, " ;,'\"*<>\r\n") {
					t.Errorf("%q gives the origin %q", from, o)
				}
			}
		}
		got := fileName(name)
		if len(got) > maxName || !utf8.ValidString(got) || strings.ContainsAny(got, "/\\:\x00\r\n\"") ||
			got == "." || got == ".." {
			t.Errorf("%q gives the name %q", name, got)
		}
	})
}

// TestFileName cuts names to what a file may be called.
func TestFileName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "photo.jpg": "photo.jpg", "../../etc/passwd": "passwd", `C:\x\y.txt`: "y.txt", "/": "", "..": "",
		".hidden":        "hidden",
		"a\u202egpj.exe": "agpj.exe", "x\r\ny": "xy", "é 漢.txt": "é 漢.txt", "a?*.b": "a.b", "\xff": "",
		strings.Repeat("é", 300) + ".tar": strings.Repeat("é", 98) + ".tar",
	} {
		if got := fileName(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
