package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// TestShown: what is not simply seen is written as a number, and nothing else.
func TestShown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plain.txt": "plain.txt", "été 日本 🧅": "été 日本 🧅",
		"invoice\u202efdp.exe": `invoice\u{202E}fdp.exe`, "a\u200bb": `a\u{200B}b`,
		"a\x1b[31m\n":   `a\u{001B}[31m\u{000A}`,
		"\u2066x\u2069": `\u{2066}x\u{2069}`,
	} {
		if got := exchange.EscapeName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestOddNamesAreReached: a listing shows a name that is not simply seen, or has
// a backslash, by a link that leads to it.
func TestOddNamesAreReached(t *testing.T) {
	t.Parallel()
	n := start(t)
	names := map[string]string{"a\u202eb.txt": `a\u{202E}b.txt`, `c\d.txt`: `c\d.txt`, "e\u200bf": `e\u{200B}f`}
	files := map[string]string{}
	for name := range names {
		files[name] = "of " + name
	}
	base := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
	page := do(t, "GET", base)
	for name, visible := range names {
		if strings.Contains(page.body, ">"+name+"<") != (name == visible) ||
			!strings.Contains(page.body, ">"+visible+"<") {
			t.Errorf("%q is not shown as %q", name, visible)
		}
		if a := do(t, "GET", base+url.PathEscape(name)); a.body != "of "+name {
			t.Errorf("%q: %s", name, a.Status)
		}
	}
}

// TestListingIsCompressed where the client takes that; content never is.
func TestListingIsCompressed(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	base := n.Addrs().Gateway + "/b3/" + root.String()
	for _, format := range []string{"html", "json"} {
		plain := do(t, "GET", base+"/?format="+format)
		for accept, want := range map[string]string{
			"gzip": "gzip", "zstd;q=0.5, gzip;q=0.4": "zstd", "gzip;q=0": "", "br": "", "gzip, zstd": "zstd",
		} {
			a := do(t, "GET", base+"/?format="+format, "Accept-Encoding", accept)
			if got := a.Header.Get("Content-Encoding"); got != want || a.err != nil {
				t.Errorf("%s: %q, want %q (%v)", accept, got, want, a.err)
				continue
			}
			var body io.Reader = strings.NewReader(a.body)
			var err error
			switch want {
			case "gzip":
				body, err = gzip.NewReader(body)
			case "zstd":
				body, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(body); string(got) != plain.body || err != nil {
				t.Errorf("%s: %d bytes, %v; plain has %d", accept, len(got), err, len(plain.body))
			}
		}
	}
	if a := do(t, "GET", base+"/readme.txt", "Accept-Encoding", "gzip"); a.Header.Get("Content-Encoding") != "" ||
		a.Header.Get("Vary") != "" {
		t.Errorf("content: %v", a.Header)
	}
}

// TestMeasuredListing: HTTP/1.0 gets a length, and an error for a listing that is
// too long for that.
func TestMeasuredListing(t *testing.T) {
	t.Parallel()
	n := start(t)
	small := n.objects.tree(t, site)
	many := map[string]string{}
	for i := range 9000 {
		many[strings.Repeat("y", 100)+string(rune('a'+i%26))+string(rune('0'+i/26%10))+string(rune('A'+i/260))] = "same"
	}
	for root, want := range map[string]int{
		small.String(): http.StatusOK, n.objects.tree(t, many).String(): http.StatusBadRequest,
	} {
		c := dialRaw(t, n)
		if _, err := io.WriteString(c, "GET /b3/"+root+"/ HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || int64(len(body)) != resp.ContentLength {
			t.Errorf("%s, %d bytes of %d, %v; want %d", resp.Status, len(body), resp.ContentLength, err, want)
		}
	}
}

// TestProblemPage: who wants pages gets errors of pages as such, and others a
// problem; what is not for people never is a page.
func TestProblemPage(t *testing.T) {
	t.Parallel()
	n := start(t)
	browser := "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	none := "/b3/b3:" + strings.Repeat("0", 64) + "/"
	for _, c := range []struct {
		path, accept string
		page         bool
	}{
		{none + "a", browser, true},
		{none, browser, true}, {"/b3/x", browser, true}, {"/nothing", browser, true}, {"/b3?key=x", browser, true},
		{none, "", false}, {none, "*/*", false}, {none, "application/json, text/html;q=0.1", false},
		{none, "text/html;q=0", false},
		{"/o/b3:abc", browser, false},
	} {
		a := do(t, "GET", n.Addrs().Gateway+c.path, "Accept", c.accept)
		above := strings.Contains(a.body, `<a href="./">Open the directory above</a>`)
		if above != (c.path == none+"a") {
			t.Errorf("%s: a link to the directory above: %t", c.path, above)
		}
		if page := a.Header.Get("Content-Type") == exchange.MediaHTML; page != c.page || a.StatusCode < 400 {
			t.Errorf("%s, %q: %s, %s", c.path, c.accept, a.Status, a.Header.Get("Content-Type"))
		}
		if !c.page {
			continue
		}
		for _, want := range []string{`<html lang="en">`, "<title>" + a.Status[:3], "<main>", "<h1>" + a.Status[:3]} {
			if !bytes.Contains([]byte(a.body), []byte(want)) {
				t.Errorf("%s: no %s in %s", c.path, want, a.body)
			}
		}
		if a.Header.Get("Content-Security-Policy") != exchange.PagePolicy || a.Header.Get("X-Reason") == "" ||
			a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", c.path, a.Header)
		}
	}
}

// TestProblemPageOfMethods: a page's path has no other methods, and says so as a
// page too.
func TestProblemPageOfMethods(t *testing.T) {
	t.Parallel()
	base := start(t).Addrs().Gateway
	for path, want := range map[string]string{
		"/": exchange.MediaHTML, "/b3": exchange.MediaHTML, "/b3/" + fakeRoot.String() + "/": exchange.MediaHTML,
		"/o/" + fakeRoot.String(): exchange.MediaProblem, "/readyz": exchange.MediaProblem,
	} {
		a := do(t, "DELETE", base+path, "Accept", "text/html,*/*;q=0.8")
		if got := a.Header.Get("Content-Type"); a.StatusCode != http.StatusMethodNotAllowed || got != want ||
			a.Header.Get("Allow") == "" {
			t.Errorf("%s: %s, %s, %v", path, a.Status, got, a.Header["Allow"])
		}
		do(t, "DELETE", base+path).problem(t, status.Method)
	}
}

// TestLinkToItself is no endless way.
func TestLinkToItself(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, map[string]string{
		"self": "-> self", "sub/deep": "-> ../sub/deep", "below": "-> below/x",
	}).String()
	for _, path := range []string{"/self", "/sub/deep", "/below"} {
		do(t, "GET", base+path).problem(t, status.HopExceeded)
	}
}
