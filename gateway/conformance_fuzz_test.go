package gateway

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/server"
	"allium/protocols/b3"
)

// FuzzConditions compares with http.ServeContent.
func FuzzConditions(f *testing.F) {
	const etag = `"b3:aa"`
	for _, s := range []string{
		`*`, `"b3:aa"`, `W/"b3:aa"`, `"x", "b3:aa"`, `"x y", "b3:aa"`, `"x`, `,,"b3:aa"`, `W/`, `"x""b3:aa"`,
		"\"\x7f\",\"b3:aa\"",
	} {
		f.Add(s, "", "")
		f.Add("", s, s)
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, im, inm, ir string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Range", "bytes=1-2")
		for name, v := range map[string]string{"If-Match": im, "If-None-Match": inm, "If-Range": ir} {
			if strings.Trim(v, " \t") != v || strings.ContainsAny(v, "\r\n\x00") {
				return // no value of a header
			}
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		rec := httptest.NewRecorder()
		rec.Header().Set("ETag", etag)
		http.ServeContent(rec, r, "", time.Time{}, strings.NewReader("hello"))
		got := exchange.Evaluate(r, etag).Code()
		want := rec.Code
		if want == http.StatusPartialContent {
			want = http.StatusOK
		}
		if got != want {
			t.Errorf("If-Match: %q, If-None-Match: %q: %d, net/http says %d", im, inm, got, rec.Code)
		}
		if exchange.RangeApplies(r, etag, time.Time{}) && rec.Code == http.StatusOK {
			t.Errorf("If-Range: %q lets a range stand, and net/http does not", ir)
		}
		if exchange.KnownFresh(r, etag) && got != http.StatusNotModified {
			t.Errorf("%q, %q: known to be fresh, but %d", im, inm, got)
		}
	})
}

// maze is a gateway with a directory, and all that its requests may say.
type maze struct {
	side http.Handler
	dir  string
	said map[string]bool // bodies of content
}

func newMaze(t testing.TB) *maze {
	objects := &fakeObjects{}
	m := &maze{said: map[string]bool{}, dir: objects.tree(t, site).String()}
	for _, content := range site {
		m.said[content] = true
	}
	for _, o := range objects.m {
		m.said[string(o.data)] = true
	}
	m.side = newTestGateway(t, objects, func(c *Config, _ *server.AdminConfig) { c.Rate = 0 }).Handler(server.Public)
	return m
}

// ask sends a target as it is, and holds the answer against what holds for all.
func (m *maze) ask(t *testing.T, target string) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
	if err != nil || r.RequestURI != target {
		return // net/http answers
	}
	r.RemoteAddr = "192.0.2.1:1"
	rec := httptest.NewRecorder()
	m.side.ServeHTTP(rec, r.WithContext(t.Context()))
	for name, values := range rec.Header() {
		for _, v := range values {
			if strings.Trim(v, printable) != "" {
				t.Errorf("%q: %s: %q", target, name, v)
			}
		}
	}
	body := rec.Body.String()
	switch code := rec.Code; {
	case code >= http.StatusBadRequest:
		var p api.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || strings.ContainsFunc(p.Detail, unprintable) ||
			code >= http.StatusInternalServerError {
			t.Errorf("%q: %d %q (%v)", target, code, body, err)
		}
	case code >= http.StatusMultipleChoices:
		at := &url.URL{Scheme: "http", Host: "x", Path: r.URL.Path, RawPath: r.URL.RawPath}
		to, err := at.Parse(rec.Header().Get("Location"))
		if err != nil || to.Host != "x" || to.Scheme != "http" || !strings.HasPrefix(to.Path, "/b3/b3:") &&
			!strings.HasPrefix(to.Path, "/o/b3:") && !strings.HasPrefix(to.Path, "/n/") {
			t.Errorf("%q leads to %q (%v)", target, rec.Header().Get("Location"), err)
		}
	case rec.Header().Get("Content-Security-Policy") == contentPolicy && !m.said[body]:
		t.Errorf("%q gives %q", target, body)
	}
}

// FuzzTargets: whatever is asked for, nothing outside of the tree is served,
// redirects stay here, and no error says what a terminal obeys.
func FuzzTargets(f *testing.F) {
	m := newMaze(f)
	names := strings.NewReplacer("{dir}", "/b3/"+m.dir, "{file}", "/b3/"+m.dir+"/readme.txt", "{text}", "/o/"+m.dir,
		"{text.hex}", m.dir[3:], "{text.HEX}", strings.ToUpper(m.dir[3:]), "{dir.b3}", m.dir, "{dir.HEX}",
		strings.ToUpper(m.dir[3:]))
	for _, e := range pathTable {
		_, target, _ := strings.Cut(e.ask, " ")
		target, _, _ = strings.Cut(target, " ")
		if len(target) < 1000 {
			f.Add(names.Replace(target))
		}
	}
	f.Fuzz(func(t *testing.T, target string) { m.ask(t, target) })
}

// TestMaze asks for everything that can be made of a few parts.
func TestMaze(t *testing.T) {
	t.Parallel()
	m := newMaze(t)
	parts := []string{
		"..", "%2e%2e", ".", "%2f", "/", "//", "%5c", `\`, "%00", "%252e", "%c0%af", "docs", "readme.txt", "up", ";",
		"%0d%0a", "?key=", "?format=json", "\xff", "%1b",
	}
	for _, base := range []string{
		"/", "/b3/", "/b3/" + m.dir, "/b3/" + m.dir + "/", "/o/", "/o/" + m.dir, "/u/", "/b3?key=" + m.dir, "/b3?key=",
	} {
		for _, a := range parts {
			m.ask(t, base+a)
			for _, b := range parts {
				m.ask(t, base+a+b)
				m.ask(t, base+a+"/"+b)
			}
		}
	}
	m.ask(t, "/o/"+b3.Sum(nil).String())
}
