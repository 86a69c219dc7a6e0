package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

// site is a directory with something of everything.
var site = map[string]string{
	"readme.txt":              "read me\n",
	"run.sh":                  "#!/bin/sh\n",
	"empty/":                  "",
	"docs/index.html":         "<!doctype html><title>docs</title>",
	"docs/style.css":          "body{}",
	"docs/deep/a.go":          "package a\n",
	"été & co/naïve %2C.txt":  "non-ascii\n",
	"<script>alert(1)<script": "odd name\n",
	"noext":                   "\x89PNG\r\n\x1a\nabc",
	"paper.pdf":               "%PDF-1.7",
	"logo.svg":                "<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
	"latest":                  "-> docs/deep",
	"up":                      "-> ../etc/passwd",
	"abs":                     "-> /etc/passwd",
	"docs/home":               "-> ../readme.txt",
	"docs/top":                "-> ./..",
}

func TestBrowse(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	base := "/b3/" + root.String()
	for _, c := range []struct {
		path     string
		code     int
		location string
		body     string // part of it
		mime     string
	}{
		{"/readme.txt", 200, "", "read me", "text/plain; charset=utf-8"},
		{"/docs/deep/a.go", 200, "", "package a", "text/plain; charset=utf-8"},
		{"/docs/", 200, "", "<title>docs</title>", "text/html; charset=utf-8"},
		{"/docs/index.html", 200, "", "<title>docs</title>", "text/html; charset=utf-8"},
		{"/docs/style.css", 200, "", "body{}", "text/css; charset=utf-8"},
		{"/noext", 200, "", "abc", "image/png"},
		{"/logo.svg", 200, "", "<svg", "image/svg+xml"},
		{"/%C3%A9t%C3%A9%20%26%20co/na%C3%AFve%20%252C.txt", 200, "", "non-ascii", "text/plain; charset=utf-8"},
		{"/", 200, "", "readme.txt", "text/html; charset=utf-8"},
		{"/empty/", 200, "", "This directory is empty", "text/html; charset=utf-8"},
		{"/docs/?format=html", 200, "", "style.css", "text/html; charset=utf-8"},
		{"/docs/?format=json", 200, "", `"style.css"`, "application/json"},

		{"", 301, base + "/", "", ""},
		{"/docs", 301, base + "/docs/", "", ""},
		{"/docs?x=1&y", 301, base + "/docs/?x=1&y", "", ""},
		{"/%C3%A9t%C3%A9%20&%20co", 301, base + "/%C3%A9t%C3%A9%20&%20co/", "", ""},
		{"/latest", 301, base + "/docs/deep", "", ""},
		{"/docs/home", 301, base + "/readme.txt", "", ""},
		{"/docs/top", 301, base + "/", "", ""},

		{"/docs%2Fdeep%2fa.go", 200, "", "package a", "text/plain; charset=utf-8"},
		{"/./docs//deep/./a.go", 200, "", "package a", "text/plain; charset=utf-8"},
		{"/docs%2findex.html", 301, base + "/docs/index.html", "", ""}, // its links are relative
		{"//docs/.", 301, base + "/docs/", "", ""},
		{"/docs%2fdeep", 301, base + "/docs/deep/", "", ""},
		{"//", 301, base + "/", "", ""},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			a := do(t, method, n.Addrs().Gateway+base+c.path)
			wantBody := c.body
			if method == "HEAD" {
				wantBody = ""
			}
			if a.StatusCode != c.code || a.Header.Get("Location") != c.location ||
				a.Header.Get("Content-Type") != c.mime ||
				!strings.Contains(a.body, wantBody) {
				t.Errorf("%s %s: %s, Location %q, %q: %.200q", method, c.path, a.Status, a.Header.Get("Location"),
					a.Header.Get("Content-Type"), a.body)
			}
		}
	}
	for path, want := range map[string]status.Outcome{
		"/nothing":                     status.NotFound,
		"/docs/nothing":                status.NotFound,
		"/readme.txt/":                 status.NotFound,
		"/readme.txt/x":                status.NotFound,
		"/up":                          status.NotFound,
		"/abs":                         status.NotFound,
		"/..%2fetc":                    status.BadRequest,
		"/%2e%2e/x":                    status.BadRequest,
		"/docs/%2e%2e":                 status.BadRequest,
		"/docs%5cindex.html":           status.NotFound,
		"/readme.txt%00":               status.BadRequest,
		"/docs/?format=xml":            status.BadRequest,
		"/" + strings.Repeat("a", 256): status.BadRequest,
	} {
		do(t, "GET", n.Addrs().Gateway+base+path).problem(t, want)
	}
}

func TestContentHeadersInAPath(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	base := n.Addrs().Gateway + "/b3/" + root.String()
	for path, attachment := range map[string]bool{
		"/docs/": false, "/logo.svg": false, "/paper.pdf": false, "/readme.txt": false,
	} {
		a := do(t, "GET", base+path)
		want := contentPolicy
		if path == "/paper.pdf" {
			want = documentPolicy
		}
		if got := a.Header.Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: policy %q", path, got)
		}
		if got := a.Header.Get("Content-Disposition"); strings.HasPrefix(got, "attachment") != attachment {
			t.Errorf("%s: disposition %q", path, got)
		}
		if a.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %q", path, a.Header.Get("Cache-Control"))
		}
	}
	// A file's validator is its own address, so it holds wherever the file is.
	file := b3.Sum([]byte(site["readme.txt"]))
	if a := do(t, "GET", base+"/readme.txt", "If-None-Match",
		exchange.ETag(file)); a.StatusCode != http.StatusNotModified {
		t.Errorf("the file's own tag: %s", a.Status)
	}
	if a := do(t, "GET", base+"/readme.txt", "Range", "bytes=0-3"); a.StatusCode != http.StatusPartialContent ||
		a.body != "read" {
		t.Errorf("a range: %s %q", a.Status, a.body)
	}
	do(t, "GET", base+"/docs/", "Service-Worker", "script").problem(t, status.NotAllowed)
}

// TestBareAddress: what an untyped address is, only its bytes say.
func TestBareAddress(t *testing.T) {
	t.Parallel()
	n := start(t)
	for name, data := range map[string]string{
		"a file":           "just text",
		"an empty file":    "",
		"a broken one":     manifest.Magic + "\xff\xff",
		"magic and no end": manifest.Magic[:10],
		"a large one":      manifest.Magic + strings.Repeat("x", manifest.MaxNode),
	} {
		root := n.objects.put([]byte(data))
		base := "/b3/" + root.String()
		if a := do(t, "GET", n.Addrs().Gateway+base); a.StatusCode != http.StatusOK || a.body != data {
			t.Errorf("%s: %s, %d bytes", name, a.Status, len(a.body))
		}
		if a := do(t, "GET", n.Addrs().Gateway+base+"/"); a.StatusCode != http.StatusMovedPermanently ||
			a.Header.Get("Location") != base {
			t.Errorf("%s with a slash: %s to %q", name, a.Status, a.Header.Get("Location"))
		}
	}
	// /o/ serves a directory's bytes, which are its manifest.
	dir := n.objects.tree(t, site)
	if a := do(t, "GET", n.Addrs().Gateway+"/o/"+dir.String()); !strings.HasPrefix(a.body, manifest.Magic) {
		t.Errorf("/o/ of a directory: %s %.40q", a.Status, a.body)
	}
	do(t, "GET", n.Addrs().Gateway+"/b3/"+n.objects.put([]byte("just text")).String()+"/x").problem(t, status.NotFound)
	do(t, "GET", n.Addrs().Gateway+"/b3/"+b3.Sum([]byte("?")).String()).problem(t, status.NotFound)
}

func TestListingJSON(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	dir := n.Addrs().Gateway + "/b3/" + root.String() + "/"
	for _, headers := range [][]string{{"Accept", "application/json"}, {"Accept", "application/json;q=0.9, */*;q=0.1"}} {
		a := do(t, "GET", dir, headers...)
		var page struct {
			Root    b3.Root
			Path    string
			Entries []api.Entry
		}
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		if page.Root != root || page.Path != "" || !slices.Contains(a.Header.Values("Vary"), "Accept") {
			t.Errorf("%+v, Vary %q", page, a.Header.Values("Vary"))
		}
		got := map[string]api.Entry{}
		for _, e := range page.Entries {
			got[e.Name] = e
		}
		if e := got["readme.txt"]; e.Kind != api.File || e.Size != 8 || e.Root != b3.Sum([]byte(site["readme.txt"])) {
			t.Errorf("%+v", e)
		}
		if e := got["docs"]; e.Kind != api.Directory || e.Root.IsZero() {
			t.Errorf("%+v", e)
		}
		if e := got["up"]; e.Kind != api.Link || e.Target != "../etc/passwd" || !e.Root.IsZero() {
			t.Errorf("%+v", e)
		}
		if !got["run.sh"].Executable || len(got) != 12 {
			t.Errorf("%d entries, %+v", len(got), got["run.sh"])
		}
	}
	for _, accept := range []string{
		"text/html,application/xhtml+xml,application/json", "*/*", "application/json;q=0", "", "junk;;",
	} {
		if a := do(t, "GET", dir, "Accept", accept); !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("Accept %q: %s", accept, a.Header.Get("Content-Type"))
		}
	}
	// An index.html is what there is to see, but not what JSON asks for.
	if a := do(t, "GET", dir+"docs/", "Accept", "application/json"); !strings.Contains(a.body, `"path":"docs"`) {
		t.Errorf("%s", a.body)
	}
}

func TestListingConditions(t *testing.T) {
	t.Parallel()
	n := start(t)
	dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, site).String() + "/"
	html := do(t, "HEAD", dir)
	etag := html.Header.Get("ETag")
	if !strings.HasPrefix(etag, `W/"b3:`) || html.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("ETag %q, %q", etag, html.Header.Get("Cache-Control"))
	}
	if a := do(t, "GET", dir, "If-None-Match", etag); a.StatusCode != http.StatusNotModified ||
		a.Header.Get("ETag") != etag {
		t.Errorf("%s", a.Status)
	}
	if a := do(t, "GET", dir+"?format=json", "If-None-Match", etag); a.StatusCode != http.StatusOK {
		t.Errorf("JSON under the tag of HTML: %s", a.Status)
	}
	do(t, "GET", dir, "If-Match", etag).problem(t, status.Precondition)
}

func TestListingHTML(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	base := n.Addrs().Gateway + "/b3/" + root.String() + "/"
	a := do(t, "GET", base)
	for _, want := range []string{
		"<!doctype html>", `<html lang="en">`, root.String(),
		`href="docs/"`, `href="readme.txt"`, "8 B", `title="8 bytes"`, "executable", "→ docs/deep", `href="latest"`,
		`href="%C3%A9t%C3%A9%20%26%20co/"`, "été &amp; co", "&lt;script&gt;alert(1)&lt;script",
		`href="/o/` + b3.Sum([]byte(site["readme.txt"])).String() + `"`, "12 entries",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %q in %s", want, a.body)
		}
	}
	if strings.Contains(a.body, "<script") || strings.Contains(a.body, "parent directory") {
		t.Errorf("%s", a.body)
	}
	policy := a.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	// Every link of the page leads somewhere, from wherever it is shown.
	for _, page := range []string{base, base + "docs/?format=html", base + "%C3%A9t%C3%A9%20&%20co/"} {
		at, err := url.Parse(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, href := range hrefs(do(t, "GET", page).body) {
			if strings.ContainsAny(href, "&+'") || strings.HasPrefix(href, "./") {
				t.Errorf("%s has the link %q, which programs misread", page, href)
			}
			to, err := at.Parse(href)
			if err != nil {
				t.Errorf("%s links to %q: %v", page, href, err)
				continue
			}
			if href == "up" || href == "abs" || to.Fragment != "" {
				continue
			}
			if a := do(t, "GET", to.String()); a.StatusCode >= 400 {
				t.Errorf("%s links to %q: %s", page, href, a.Status)
			}
		}
	}
	if body := do(t, "GET", base+"docs/deep/").body; !strings.Contains(body, "parent directory") ||
		!strings.Contains(body, `<a class="crumb" href="/b3/`+root.String()+`/docs/">docs</a>`) {
		t.Errorf("no way up: %s", body)
	}
}

// hrefs lists the links of a page, unescaped.
func hrefs(page string) (list []string) {
	for _, part := range strings.Split(page, `href="`)[1:] {
		href, _, _ := strings.Cut(part, `"`)
		list = append(list, strings.ReplaceAll(href, "&amp;", "&"))
	}
	return list
}

// TestLargeListing: a directory of several nodes is streamed whole.
func TestLargeListing(t *testing.T) {
	if testing.Short() {
		t.Skip("a large directory; TestMaze has the same goroutines")
	}
	t.Parallel()
	n := start(t)
	files := map[string]string{}
	const many = 12_000
	for i := range many {
		files[fmt.Sprintf("file-%05d-%s.txt", i, strings.Repeat("x", 60))] = "same"
	}
	root := n.objects.tree(t, files)
	base := n.Addrs().Gateway + "/b3/" + root.String() + "/"
	if a := do(t, "GET", base); strings.Count(a.body, "<tr>") != many+1 || !strings.HasSuffix(a.body, "</html>\n") {
		t.Errorf("%d rows", strings.Count(a.body, "<tr>")-1)
	}
	var page struct{ Entries []api.Entry }
	if err := json.Unmarshal([]byte(do(t, "GET", base+"?format=json").body), &page); err != nil ||
		len(page.Entries) != many {
		t.Errorf("%d entries, %v", len(page.Entries), err)
	}
	if a := do(t, "GET", base+fmt.Sprintf("file-%05d-%s.txt", 11_111, strings.Repeat("x", 60))); a.body != "same" {
		t.Errorf("%s %q", a.Status, a.body)
	}
}

// TestVia: what lies below a directory is looked for where the directory is.
func TestVia(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	do(t, "GET", n.Addrs().Gateway+"/b3/"+root.String()+"/docs/deep/a.go")
	opens := n.objects.opened()
	if len(opens) < 4 || !opens[0].Via.IsZero() {
		t.Fatalf("%+v", opens)
	}
	for _, o := range opens[1:] {
		if o.Via != root || !o.Whole {
			t.Errorf("%+v", o)
		}
	}
	do(t, "GET", n.Addrs().Gateway+"/o/"+root.String(), "Range", "bytes=0-1")
	if o := n.objects.opened(); len(o) != 1 || o[0].Whole {
		t.Errorf("for a range: %+v", o)
	}
}

func TestLanding(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	if a := do(t, "GET", base+"/"); !strings.Contains(a.body, "This node is ready.") ||
		a.Header.Get("Content-Security-Policy") != exchange.PagePolicy {
		t.Errorf("%s %s", a.Status, a.body)
	}
	n.ready.set(api.Readiness{Gates: []api.Gate{{Name: "seeds", Have: 1, Need: 3, Fix: "give --bootstrap <a seed>"}}})
	if a := do(t, "GET", base+"/"); !strings.Contains(a.body, "seeds: 1 of 3; give --bootstrap &lt;a seed&gt;") {
		t.Errorf("%s %s", a.Status, a.body)
	}
	root := b3.Sum(nil)
	shared, object := "allium15vqqzq2cyr4g793akwrg9yj7gjgutevdfwe4qmhcc98t0z5xayyv2cj2vusq7pz"+
		"cycqzgzqpzgsg4z8rm46qnuv4l4fdktfuhfwh9jn8pxl3m9qjr0ehfzqpks8k7hq6a6mng",
		"/b3/b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f"
	sharer, err := peer.Decode("12D3KooWE4239U7UocwvYzy1zc4TNYj54dUB2XWKEPgZJCCWAeKJ")
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string, directory bool) string {
		text, err := ticket.Ticket{Root: root, Peer: sharer, Name: name, Directory: directory}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for key, want := range map[string]string{
		named("a b.zip", false):          "/o/" + root.String() + "/a%20b.zip",
		named("a b.zip", false) + "/c":   "/b3/" + root.String() + "/c",
		named("photos", true):            "/b3/" + root.String() + "/?name=photos",
		"Blog.Site":                      "/n/blog.site",
		"blog.site/2026/":                "/n/blog.site/2026/",
		root.String():                    "/b3/" + root.String(),
		" " + root.String() + "/a b/c/ ": "/b3/" + root.String() + "/a%20b/c/",
		"/b3/" + root.String():           "/b3/" + root.String(),
		strings.ToUpper(root.String()):   "/b3/" + root.String(),
		shared:                           object, // a ticket: only its address counts
		strings.ToUpper(shared) + "/a":   object + "/a",
	} {
		a := do(t, "GET", base+"/b3?key="+url.QueryEscape(key))
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want {
			t.Errorf("%q: %s to %q, want %q", key, a.Status, a.Header.Get("Location"), want)
		}
		if key = strings.TrimSpace(key); strings.HasPrefix(want, "/b3/") && !ticket.Is(key) {
			continue // addresses are served there
		}
		a = do(t, "GET", base+"/b3/"+strings.ReplaceAll(key, " ", "%20"))
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want {
			t.Errorf("below /b3/, %q: %s to %q, want %q", key, a.Status, a.Header.Get("Location"), want)
		}
	}
	for key, want := range map[string]status.Outcome{
		"hello": status.BadAddress, `\..`: status.BadAddress, "a b.c": status.BadAddress,
		"b3:12.34": status.BadAddress, "..": status.BadAddress, "../x": status.BadAddress,
		"blog.site/../x": status.BadRequest, "evil.org//x/..": status.BadRequest,
	} {
		do(t, "GET", base+"/b3?key="+url.QueryEscape(key)).problem(t, want)
	}
	if a := do(t, "GET", base+"/b3?key=hello"); !strings.Contains(a.body, "LABEL.ZONE") {
		t.Errorf("a text of no form: %s", a.body)
	}
	do(t, "GET", base+"/b3?key="+shared[:50]).problem(t, status.BadAddress)
	do(t, "GET", base+"/b3").problem(t, status.BadAddress)
	if a := do(t, "GET", base+"/favicon.ico"); a.StatusCode != http.StatusOK ||
		a.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%s", a.Status)
	}
}
