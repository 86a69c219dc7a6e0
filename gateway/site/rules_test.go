package site

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"allium/protocols/status"
)

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// TestRedirects has rules as users of Netlify and IPFS write them.
func TestRedirects(t *testing.T) {
	t.Parallel()
	const text = `# moved
/old            /new
/home           /                302
/blog/:year/:slug  /posts/:slug?from=:year  308 # kept
/docs/*         https://docs.example.org/v2/:splat 307
/app/*          /index.html      200
/gone/*         /410.html        410
/law            /law.html        451
/caf%C3%A9      /coffee
/a%3Ab/:c       /x-:c.html       303
/e/*            /:splat/z        301
/*              /404.html        404
`
	r, err := ParseRedirects([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Action{
		"/old": {301, "/new"}, "/old/": {301, "/new"}, "/home": {302, "/"},
		"/blog/2024/hello world": {308, "/posts/hello%20world?from=2024"},
		"/docs/a/ü":              {307, "https://docs.example.org/v2/a/%C3%BC"}, "/docs": {307, "https://docs.example.org/v2/"},
		"/app/x/y": {200, "/index.html"}, "/gone/x": {410, "/410.html"}, "/law": {451, "/law.html"},
		"/café": {301, "/coffee"}, "/a:b/\\evil": {303, "/x-%5Cevil.html"}, "/other/x": {404, "/404.html"},
		"/e": {301, "/z"}, "/e/evil.example": {301, "/evil.example/z"}, "/blog/2024": {404, "/404.html"},
	} {
		m := r.Begin()
		if got, ok := m.Next(split(path)); !ok || got != want {
			t.Errorf("%s: %+v %t, want %+v", path, got, ok, want)
		}
	}
	m := r.Begin()
	for i, want := range []int{410, 404, 0} { // no rule twice
		if got, _ := m.Next([]string{"gone"}); got.Code != want {
			t.Errorf("%d: %+v, want %d", i, got, want)
		}
	}
	m = (*Redirects)(nil).Begin()
	if _, ok := m.Next(nil); ok {
		t.Error("no rules have one")
	}
}

// TestBadRedirects: the error names the line.
func TestBadRedirects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/a": "no target", "a /b": "no path", "/a b": "neither a path", "//a /b": "no path", "/a //b.example/": "neither",
		`/a /\b.example`: "neither", "/a /b 200!": "forces", "/a /b 418": "none of", "/a /b 0301x": "none of",
		"/a id=:id /b 301": "more than", "/a /b 301 Country=de": "more than",
		"/a https://b.example/ 200": "another site", "/a https://b.example/ 404": "another site",
		"/a javascript:alert(1)": "neither", "/a ftp://b.example/": "no URL", "/a https:///b": "no URL",
		"/a https://u@b.example/": "no URL", "/:a https://:a/": "no URL", "/:a https://b.example:a/": "no URL",
		"/* https://*.b.example/": "no URL", `/a https://b.example\@c.example/`: "no URL",
		"/*/b /c": "a *", "/a* /c": "a *", "/:a/:a /c": "twice", "/: /c": "placeholder", "/:a-b /c": "placeholder",
		"/:splat /c": "placeholder", "/a /:b": "the path does not", "/a /:splat": "the path does not",
		"/%zz /b": "percent", "/a/../b /c": "no file name", "/a%2fb /c": "no file name", "/a?x=1 /c": "query",
		"/a \x00": "control", "/a /b\rSet-Cookie: x": "control", "/a \xff": "UTF-8",
		"https://a.example/* /b": "no path", strings.Repeat("/a /b\n", MaxRules) + "/a": "more than 1000",
	} {
		_, err := ParseRedirects([]byte("# 1\n" + text))
		if status.Of(err) != status.Upstream || !strings.Contains(fmt.Sprint(err), want) ||
			want != "UTF-8" && want[:3] != "mor" && !strings.Contains(err.Error(), "line 2 of _redirects") {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseRedirects(make([]byte, MaxFile+1)); status.Of(err) != status.Upstream {
		t.Errorf("too long: %v", err)
	}
}

// TestHeaders has a file as users of Netlify write it.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h, err := ParseHeaders([]byte(`# all
/*
  X-Frame-Options: DENY
  cache-control: max-age=60
/assets/*
	Cache-Control: immutable
  # a comment
  Access-Control-Allow-Origin: *
/:page/
  Link: </style.css>; rel=preload
`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/":         "[{X-Frame-Options DENY} {Cache-Control max-age=60}]",
		"/a":        "[{X-Frame-Options DENY} {Cache-Control max-age=60} {Link </style.css>; rel=preload}]",
		"/assets/a": "[{X-Frame-Options DENY} {Cache-Control max-age=60, immutable} {Access-Control-Allow-Origin *}]",
	} {
		if got := fmt.Sprint(h.For(split(path))); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := (*Headers)(nil).For(nil); got != nil {
		t.Errorf("no rules: %v", got)
	}
}

// TestBadHeaders: headers beyond the site's origin, and lines that are none.
func TestBadHeaders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"  Link: x": "before the first path", "/\n  Link": "no header", "/\n  Link:": "no header", "/\n  : x": "no header",
		"/\n  Set-Cookie: a=b": "Set-Cookie", "/\n  Strict-Transport-Security: max-age=1": "Strict-Transport",
		"/\n  Clear-Site-Data: *": "Clear-Site-Data", "/\n  Location: /": "Location",
		"/\n  Content-Length: 1": "Content-Length",
		"/\n  ETag: x":           "Etag", "/\n  Alt-Svc: x": "Alt-Svc", "/\n  Basic-Auth: a:b": "Basic-Auth",
		"/\n  X-Content-Type-Options: none": "one value", "/\n  Link: ü": "not ASCII", "x\n": "no path",
		"/\n  Link: a\r  Set-Cookie: b": "control", "/\n  Link: " + strings.Repeat("x", maxHeaders+1): "too long",
		strings.Repeat("/a\n", MaxRules+1): "more than",
	} {
		if _, err := ParseHeaders([]byte(text)); status.Of(err) != status.Upstream || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	h, err := ParseHeaders([]byte("/*\n" + strings.Repeat("  Link: "+strings.Repeat("x", 1000)+"\n", 60)))
	if err != nil {
		t.Fatal(err)
	}
	if got := h.For(nil); len(got) != 1 || len(got[0].Value) > maxHeaders {
		t.Errorf("%d headers", len(got))
	}
}

// TestSettings: what a site.json does not say is false.
func TestSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"clean_urls":true}`: true, `{"clean_urls":true,"other":[1]}`: true, `{"clean_urls":"yes"}`: false, `[]`: false,
		``: false, `{`: false, `{"clean_urls":true}` + strings.Repeat(" ", MaxFile): false,
	} {
		if got := ParseSettings([]byte(text)); got.CleanURLs != want {
			t.Errorf("%.40q: %+v", text, got)
		}
	}
}

// TestAllocations: a path that no rule matches costs nothing.
func TestAllocations(t *testing.T) {
	r, err := ParseRedirects([]byte(strings.Repeat("/a/:b/c/* /d/:b/:splat\n", MaxRules)))
	if err != nil {
		t.Fatal(err)
	}
	h, err := ParseHeaders([]byte("/a/*\n  Link: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	path := split("/a/b/x")
	if n := testing.AllocsPerRun(100, func() {
		m := r.Begin()
		if _, ok := m.Next(path); ok {
			t.Error("found")
		}
		h.For(path[1:])
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRedirects(f *testing.F) {
	f.Add("/a/:b/* https://x.example/:b/:splat 302\n/* /index.html 200", "/a/b/c")
	f.Add("/e/* /:splat/z", "/e")
	f.Fuzz(func(t *testing.T, text, path string) {
		r, err := ParseRedirects([]byte(text))
		if err != nil {
			if status.Of(err) != status.Upstream {
				t.Error(err)
			}
			return
		}
		names := split(path)
		m := r.Begin()
		for n := 0; ; n++ {
			a, ok := m.Next(names)
			if !ok {
				return
			}
			u, err := url.Parse(a.To)
			switch {
			case n >= MaxRules:
				t.Fatal("it does not end")
			case strings.ContainsAny(a.To, "\r\n\x00 \\"):
				t.Errorf("%+q", a.To)
			case strings.HasPrefix(a.To, "/") && strings.HasPrefix(a.To, "//"):
				t.Errorf("%q leads to another host", a.To)
			case strings.HasPrefix(a.To, "/"):
			case err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !a.Redirects()):
				t.Errorf("%+q", a.To)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("/*\n  Cache-Control: max-age=1\n", "/a")
	f.Fuzz(func(t *testing.T, text, path string) {
		h, err := ParseHeaders([]byte(text))
		if err != nil {
			if status.Of(err) != status.Upstream {
				t.Error(err)
			}
			return
		}
		for _, one := range h.For(split(path)) {
			if !Allowed(one.Name) || strings.ContainsAny(one.Value, "\r\n\x00") || one.Value == "" {
				t.Errorf("%q", one)
			}
		}
	})
}

func FuzzSettings(f *testing.F) {
	f.Add(`{"clean_urls":true}`)
	f.Fuzz(func(_ *testing.T, text string) { ParseSettings([]byte(text)) })
}
