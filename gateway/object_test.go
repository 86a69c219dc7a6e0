package gateway

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestObject(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	const text = "hello, world\n"
	root := n.objects.put([]byte(text))
	url, etag := base+"/o/"+root.String(), `"`+root.String()+`"`
	big := bytes.Repeat([]byte("0123456789abcdef"), 3*b3.GroupSize/16+1)
	bigRoot := n.objects.put(big)
	empty := n.objects.put(nil)
	latin, late := n.objects.put([]byte("caf\xe9")), n.objects.put(append(big[:2000:2000], 0xe9))

	for _, c := range []struct {
		name    string
		url     string
		headers []string
		code    int
		body    string
		want    map[string]string // headers; "" is absent
	}{
		{"whole", url, nil, 200, text, map[string]string{
			"ETag": etag, "Content-Length": "13", "Accept-Ranges": "bytes",
			"Cache-Control": "public, max-age=31536000, immutable",
			"Content-Type":  "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Content-Security-Policy": contentPolicy, "Cross-Origin-Resource-Policy": "same-site",
			"Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT", "Vary": "Accept",
			"Content-Disposition": "", "Access-Control-Allow-Origin": "",
			"Content-Encoding": "",
		}},
		{"escaped colon", base + "/o/b3%3A" + root.Hex(), nil, 200, text, nil},
		{"several groups", base + "/o/" + bigRoot.String(), nil, 200, string(big), nil},
		{
			"empty", base + "/o/" + empty.String(), nil, 200, "",
			map[string]string{"Content-Length": "0", "Content-Type": "text/plain; charset=utf-8"},
		},
		{"no gzip", url, []string{"Accept-Encoding", "gzip, br"}, 200, text, map[string]string{"Content-Encoding": ""}},

		{"fresh", url, []string{"If-None-Match", etag}, 304, "", map[string]string{
			"ETag": etag, "Cache-Control": "public, max-age=31536000, immutable",
			"Content-Type": "", "Content-Length": "",
		}},
		{"fresh, weakly", url, []string{"If-None-Match", `"x", W/` + etag}, 304, "", nil},
		{"fresh, any", url, []string{"If-None-Match", "*"}, 304, "", nil},
		{"fresh before range", url, []string{"If-None-Match", etag, "Range", "bytes=99-"}, 304, "", nil},
		{"stale", url, []string{"If-None-Match", `"x"`}, 200, text, nil},
		{"match", url, []string{"If-Match", etag}, 200, text, nil},
		{"match and fresh", url, []string{"If-Match", etag, "If-None-Match", etag}, 304, "", nil},
		{
			"not before its date", url, []string{"If-Modified-Since", "Fri, 31 Dec 1999 23:59:59 GMT"}, 200, text, nil,
		},

		{"range", url, []string{"Range", "bytes=7-11"}, 206, "world", map[string]string{
			"Content-Range": "bytes 7-11/13", "Content-Length": "5", "ETag": etag,
			"Content-Type": "text/plain; charset=utf-8",
		}},
		{"all of it", url, []string{"Range", "bytes=0-"}, 206, text,
			map[string]string{"Content-Range": "bytes 0-12/13"}},
		{"the end", url, []string{"Range", "Bytes=-6"}, 206, "world\n",
			map[string]string{"Content-Range": "bytes 7-12/13"}},
		{
			"clamped", url, []string{"Range", "bytes=7-99999999999999999999"}, 206, "world\n",
			map[string]string{"Content-Range": "bytes 7-12/13"},
		},
		{
			"across groups", base + "/o/" + bigRoot.String(), []string{"Range", "bytes=65530-65545"}, 206,
			string(big[65530:65546]), nil,
		},
		{"named", url + "/page.zip", nil, 200, text, map[string]string{
			"Content-Type": "application/zip", "ETag": etag, "Content-Disposition": "",
		}},
		{"named document", url + "/a%20b.html", nil, 200, text, map[string]string{
			"Content-Disposition": "attachment; filename*=UTF-8''a%20b.html",
		}},
		{"in Latin-1", base + "/o/" + latin.String(), nil, 200, "caf\xe9",
			map[string]string{"Content-Type": "text/plain"}},
		{"in Latin-1, named", base + "/o/" + latin.String() + "/a.csv", nil, 200, "caf\xe9", map[string]string{
			"Content-Type": "text/csv",
		}},
		{"in Latin-1 behind the first range", base + "/o/" + late.String() + "/a.log",
			[]string{"Range", "bytes=0-3"}, 206,
			"0123", map[string]string{"Content-Type": "text/plain"}},
		{"other unit", url, []string{"Range", "items=0-3"}, 200, text, map[string]string{"Content-Range": ""}},
		{"if-range holds", url, []string{"Range", "bytes=0-4", "If-Range", etag}, 206, "hello", nil},
		{"if-range is weak", url, []string{"Range", "bytes=0-4", "If-Range", "W/" + etag}, 200, text, nil},
		{"if-range differs", url, []string{"Range", "bytes=99-", "If-Range", `"x"`}, 200, text, nil},
		{"if-range dates", url, []string{"Range", "bytes=0-4", "If-Range", "Tue, 01 Jan 2030 00:00:00 GMT"}, 200, text,
			nil},
		{"suffix of nothing", base + "/o/" + empty.String(), []string{"Range", "bytes=-5"}, 200, "", nil},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if method == http.MethodHead && c.code == http.StatusPartialContent {
				continue // HEAD ignores Range
			}
			a := do(t, method, c.url, c.headers...)
			body := c.body
			if method == http.MethodHead {
				body = ""
			}
			if a.StatusCode != c.code || a.body != body || a.err != nil {
				t.Errorf("%s, %s: %s %q (%v)", c.name, method, a.Status, a.body, a.err)
			}
			for name, want := range c.want {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s, %s: %s: %q, want %q", c.name, method, name, got, want)
				}
			}
			if a.Header.Get("X-Corr-ID") == "" {
				t.Errorf("%s, %s: no X-Corr-ID", c.name, method)
			}
		}
	}
}

func TestObjectRefusals(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	root := n.objects.put([]byte("hello"))
	remote := n.objects.add(&fakeObject{data: []byte("far away"), remote: true})
	url := base + "/o/" + root.String()
	for _, c := range []struct {
		name    string
		url     string
		headers []string
		want    status.Outcome
	}{
		{"nobody has it", base + "/o/" + b3.Sum([]byte("no such object")).String(), nil, status.NotFound},
		{"short address", base + "/o/b3:abc", nil, status.BadAddress},
		{"something below", url + "/x/y", nil, status.BadAddress},
		{"no such page", base + "/nothing", nil, status.NotFound},
		{"admin pages are elsewhere", base + "/metrics", nil, status.NotFound},
		{"the API is elsewhere", base + "/api/v1/id", nil, status.NotFound},
		{"match", url, []string{"If-Match", `"x"`}, status.Precondition},
		{"match, weakly", url, []string{"If-Match", "W/" + exchange.ETag(root)}, status.Precondition},
		{
			"only if cached", base + "/o/" + remote.String(), []string{"Cache-Control", "max-age=0, Only-If-Cached"},
			status.Precondition,
		},
		{"service worker", url, []string{"Service-Worker", "script"}, status.NotAllowed},
		{"range beyond", url, []string{"Range", "bytes=5-"}, status.BadRange},
		{"backward range", url, []string{"Range", "bytes=5-2"}, status.BadRange},
		{"no bytes", url, []string{"Range", "bytes=-0"}, status.BadRange},
		{"two ranges", url, []string{"Range", "bytes=0-1,3-4"}, status.BadRange},
		{"two headers", url, []string{"Range", "bytes=0-1", "Range", "bytes=2-3"}, status.BadRange},
		{"bad timeout", url, []string{"Request-Timeout", "soon"}, status.BadRequest},
		{"negative timeout", url, []string{"Request-Timeout", "-1"}, status.BadRequest},
		{"no timeout at all", url, []string{"Request-Timeout", "NaN"}, status.BadRequest},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if method == http.MethodHead && c.want == status.BadRange {
				continue // HEAD ignores Range
			}
			t.Run(c.name+" "+method, func(t *testing.T) {
				a := do(t, method, c.url, c.headers...)
				a.problem(t, c.want)
				if c.want == status.BadRange && a.Header.Get("Content-Range") != "bytes */5" {
					t.Errorf("Content-Range %q", a.Header.Get("Content-Range"))
				}
			})
		}
	}
	for _, method := range []string{"POST", "DELETE", "PATCH", "BREW"} {
		a := do(t, method, url)
		a.problem(t, status.Method)
		if allow := a.Header.Get("Allow"); !strings.HasPrefix(allow, "GET, HEAD, ") ||
			!strings.HasSuffix(allow, "OPTIONS") {
			t.Errorf("Allow: %q", allow)
		}
	}
	if a := do(t, "GET", base+"/o/"+remote.String()); a.body != "far away" {
		t.Errorf("a remote object: %s %q", a.Status, a.body)
	}
}

// TestOtherFormsAreRedirected: each object has one URL, and each other form of its address leads there, with path and
// query, before anybody looks for the object.
func TestOtherFormsAreRedirected(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.put([]byte("x"))
	upper := strings.ToUpper(root.Hex())
	digits := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(root[:]))
	for _, form := range []string{
		"b3:" + upper, "B3:" + upper, root.Hex(), upper, digits, strings.ToUpper(digits),
		"%" + fmt.Sprintf("%x", digits[0]) + digits[1:],
	} {
		for from, to := range map[string]string{
			"/o/" + form: "/o/" + root.String(), "/o/" + form + "?a=b": "/o/" + root.String() + "?a=b",
			"/b3/" + form: "/b3/" + root.String(), "/b3/" + form + "/": "/b3/" + root.String() + "/",
			"/b3/" + form + "/a%20b/c%C3%A9/?q": "/b3/" + root.String() + "/a%20b/c%C3%A9/?q",
			"/resolve/" + form + "?limit=2":     "/resolve/" + root.String() + "?limit=2",
			"/providers/" + form:                "/providers/" + root.String(),
		} {
			for _, method := range []string{"GET", "HEAD"} {
				a := do(t, method, n.Addrs().Gateway+from, "Range", "bytes=0-0")
				if a.StatusCode != http.StatusPermanentRedirect || a.Header.Get("Location") != to ||
					a.Header.Get("Cache-Control") != exchange.Immutable || a.body != "" {
					t.Errorf("%s %s: %s to %q, want %q", method, from, a.Status, a.Header.Get("Location"), to)
				}
			}
		}
	}
	dir := n.objects.tree(t, map[string]string{digits: "one", root.Hex(): "two"}) // file names are no addresses
	for name, want := range map[string]string{digits: "one", root.Hex(): "two"} {
		if a := do(t, "GET", n.Addrs().Gateway+"/b3/"+dir.String()+"/"+name); a.body != want {
			t.Errorf("%s: %s %q", name, a.Status, a.body)
		}
	}
	for _, none := range []string{digits[:51] + "b", digits + "a", root.Hex()[1:], "b3:" + digits, root.CID().String()} {
		do(t, "GET", n.Addrs().Gateway+"/o/"+none).problem(t, status.BadAddress)
	}
}

// TestDocumentsAreDownloaded: from /o/, in the gateway's origin, nothing that a
// browser would open as a document is opened.
func TestDocumentsAreDownloaded(t *testing.T) {
	t.Parallel()
	n := start(t)
	for content, want := range map[string]string{
		"<!DOCTYPE html><script>alert(1)</script>": "text/html; charset=utf-8",
		"<?xml version=\"1.0\"?><svg/>":            "text/xml",
		"%PDF-1.7 etc":                             "application/pdf",
		"plain":                                    "",
		"\x89PNG\r\n\x1a\n":                        "",
	} {
		root := n.objects.put([]byte(content))
		for _, headers := range [][]string{nil, {"Range", "bytes=1-2"}} {
			for _, method := range []string{"GET", "HEAD"} {
				a := do(t, method, n.Addrs().Gateway+"/o/"+root.String(), headers...)
				disposition := a.Header.Get("Content-Disposition")
				if strings.HasPrefix(disposition, "attachment") != (want != "") || want != "" &&
					a.Header.Get("Content-Type") != want {
					t.Errorf("%s %q %v: %s, %q", method, content, headers, a.Header.Get("Content-Type"), disposition)
				}
			}
		}
	}
}

// TestKnownFreshIsNotLookedFor: an address names one content for ever, so a
// client that has it needs no provider.
func TestKnownFreshIsNotLookedFor(t *testing.T) {
	t.Parallel()
	n := start(t)
	nowhere := b3.Sum([]byte("nowhere"))
	a := do(t, "GET", n.Addrs().Gateway+"/o/"+nowhere.String(), "If-None-Match", exchange.ETag(nowhere))
	if opens := n.objects.opened(); a.StatusCode != http.StatusNotModified || len(opens) != 0 {
		t.Errorf("%s after %d opens", a.Status, len(opens))
	}
	a = do(t, "GET", n.Addrs().Gateway+"/o/"+nowhere.String(), "If-None-Match", "*")
	a.problem(t, status.NotFound)
}
