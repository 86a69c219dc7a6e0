package origin

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestAnswers: 200 alone is an answer, or 304 to a request that validates a copy.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		code    int
		header  http.Header
		o       status.Outcome
		detail  string
		asked   int64
		failing bool
	}{
		{"ok", 200, nil, status.OK, "", 1, false},
		{"identity", 200, http.Header{"Content-Encoding": {"identity"}}, status.OK, "", 1, false},
		{"gzip", 200, http.Header{"Content-Encoding": {"gzip"}}, status.Upstream, "encoded", 1, false},
		{"br", 200, http.Header{"Content-Encoding": {"identity, br"}}, status.Upstream, "encoded", 1, false},
		{"two", 200, http.Header{"Content-Encoding": {"", "zstd"}}, status.Upstream, "encoded", 1, false},
		{"partial", 206, http.Header{"Content-Range": {"bytes 0-0/1"}}, status.Upstream, "status_206", 1, false},
		{"created", 201, nil, status.Upstream, "status_201", 1, false},
		{"empty", 204, nil, status.Upstream, "status_204", 1, false},
		{"not asked", 304, nil, status.Upstream, "status_304", 1, false},
		{"choices", 300, nil, status.Upstream, "status_300", 1, false},
		{"missing", 404, nil, status.NotFound, "", 1, false},
		{"gone", 410, nil, status.NotFound, "", 1, false},
		{"login", 401, nil, status.Upstream, "status_401", 1, false},
		{"forbidden", 403, nil, status.Upstream, "status_403", 1, false},
		{"limited", 429, nil, status.Upstream, "status_429", 1, true},
		{"broken", 500, nil, status.Upstream, "status_500", 1, true},
		{"bad gateway", 502, nil, status.Upstream, "status_502", 1, true},
		{"unavailable", 503, nil, status.Upstream, "status_503", 3, true},
		{"late", 504, nil, status.Upstream, "status_504", 3, true},
		{"retry much later", 503, http.Header{"Retry-After": {"3600"}}, status.Upstream, "status_503", 1, true},
		{"retry then", 503, http.Header{"Retry-After": {"Fri, 31 Dec 2100 23:59:59 GMT"}}, status.Upstream, "status_503", 3,
			true},
	} {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range c.header {
				w.Header()[name] = values
			}
			w.WriteHeader(c.code)
			if c.code == http.StatusOK {
				_, _ = w.Write([]byte("x"))
			}
		}, nil)
		_, _, err := r.get(t, "a")
		want(t, c.name, err, c.o, c.detail)
		if n := r.asked.Load(); n != c.asked || r.retried.Load() != c.asked-1 {
			t.Errorf("%s: asked %d times, not %d; %d retries", c.name, n, c.asked, r.retried.Load())
		}
		if Failing(err) != c.failing {
			t.Errorf("%s: failing is %t", c.name, !c.failing)
		}
		if err != nil && !strings.Contains(err.Error(), "maps") {
			t.Errorf("%s: the error does not name the source: %v", c.name, err)
		}
	}
}

// TestRequest: an origin gets a path and a fixed header, and nothing else.
func TestRequest(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		q.Header.Set("Path", q.RequestURI)
		for name, values := range q.Header {
			switch name {
			case "User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "Path":
				w.Header()["Got-"+name] = values
			default:
				t.Errorf("the request has %s: %q", name, values)
			}
		}
		if q.Header.Get("If-None-Match") == `"a"` {
			w.WriteHeader(http.StatusNotModified)
		}
	}, nil)
	for path, uri := range map[string]string{
		"": "/base/", "a": "/base/a", "a/b.txt": "/base/a/b.txt", "a/": "/base/a/", "a b": "/base/a%20b",
		"a%2fb": "/base/a%252fb", "é?x#y": "/base/%C3%A9%3Fx%23y", "a;b=c": "/base/a%3Bb=c", "..a/b..": "/base/..a/b..",
		"a:b@c": "/base/a:b@c", "%2e%2e": "/base/%252e%252e",
	} {
		q := Request{Path: path}
		_ = q
		resp, err := r.transport.RoundTrip(r.request(t.Context(), join(r.bases[0], path), q))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("Got-Path"); got != uri {
			t.Errorf("%q is requested as %s, not %s", path, got, uri)
		}
		if resp.Header.Get("Got-User-Agent") != "allium/v1" || resp.Header.Get("Got-Accept-Encoding") != "identity" {
			t.Errorf("%v", resp.Header)
		}
	}
	a, err := r.Get(t.Context(), Request{Path: "a", ETag: `"a"`, LastModified: "Fri, 02 Jan 2026 03:04:05 GMT"})
	if err != nil || !a.Current || a.Body != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestPaths: no path leads out of the base URL, and none has two readings.
func TestPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(http.ResponseWriter, *http.Request) {}, nil)
	for _, path := range []string{
		"..", "../a", "a/../../b", "a/..", ".", "./", "./a", "a/.", "/a", "//a", "a//b", "a//", "/", `a\b`, `..\a`,
		"a\x00b", "a\nb",
		"a\x7f", "\xff", strings.Repeat("a", maxPath+1), "a/../",
	} {
		_, err := r.Get(t.Context(), Request{Path: path})
		want(t, path, err, status.BadAddress, "")
	}
	if n := r.asked.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// TestValidators: only strong tags and valid dates are kept.
func TestValidators(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		`"a"`: `"a"`, `""`: `""`, `W/"a"`: "", `w/"a"`: "", "a": "", `"a`: "", `a"`: "", `"a"b"`: "", `"a b"`: "", "": "",
		`"` + strings.Repeat("a", maxTag) + `"`: "", "\"\x01\"": "",
	} {
		if got := strongTag(http.Header{"Etag": {tag}}); got != want {
			t.Errorf("%q is %q", tag, got)
		}
	}
	if got := strongTag(http.Header{"Etag": {`"a"`, `"b"`}}); got != "" {
		t.Errorf("two tags are %q", got)
	}
	for _, c := range []struct {
		lines string
		age   string
		want  time.Duration
		never bool // a stale copy must not be served
	}{
		{"", "", 0, false}, {"max-age=60", "", time.Minute, false}, {"max-age=60", "20", 40 * time.Second, false},
		{"max-age=60", "90", 0, false}, {"max-age=60, s-maxage=5", "", 5 * time.Second, true},
		{"s-maxage=5, MAX-AGE=60", "", 5 * time.Second, true}, {"public, max-age=\"60\"", "", time.Minute, false},
		{"max-age=60, no-store", "", 0, true}, {"no-store, max-age=60", "", 0, true}, {"no-cache", "", 0, true},
		{"private, max-age=60", "", 0, true}, {"no-cache=\"Set-Cookie\", max-age=60", "", 0, true},
		{"max-age=-1", "", 0, false}, {"max-age=99999999999999999999", "", 0, false}, {"max-age", "", 0, false},
		{"immutable", "", 0, false}, {"max-age=60", "x", time.Minute, false},
		{"max-age=60, Must-Revalidate", "", time.Minute, true}, {"proxy-revalidate", "", 0, true},
		{"s-maxage=x, max-age=60", "", 0, true}, {"max-age=60, must-understand", "", time.Minute, false},
	} {
		h := http.Header{}
		if c.lines != "" {
			h.Set("Cache-Control", c.lines)
		}
		if c.age != "" {
			h.Set("Age", c.age)
		}
		if got := caching(h); got != (Caching{c.lines != "", c.want, c.never}) {
			t.Errorf("%q, age %q: %+v", c.lines, c.age, got)
		}
	}
}

// TestMirrors: what fails at one mirror is asked of the next, and a mirror that says no is the last word, unless the
// caller proves the bytes.
func TestMirrors(t *testing.T) {
	t.Parallel()
	code := atomic.Int64{}
	other := newRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("other")) }, nil)
	first := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) },
		func(c *Config, _ *Deps) {
			c.URLs = append(c.URLs, other.cfg.URLs...)
			c.Roots.AddCert(other.server.Certificate())
		})
	for _, c := range []struct {
		code   int64
		proved bool
		except []int
		o      status.Outcome
	}{
		{503, false, nil, status.OK}, {500, false, nil, status.OK}, {403, false, nil, status.OK},
		{404, false, nil, status.NotFound},
		{404, true, nil, status.OK}, {200, false, []int{0}, status.OK}, {200, false, []int{0, 1}, status.Upstream},
	} {
		code.Store(c.code)
		body, a, err := first.ask(t, Request{Path: "a", Proved: c.proved, Except: c.except})
		want(t, strconv.Itoa(int(c.code)), err, c.o, "-")
		if err == nil && (body != "other" || a.Mirror != 1) {
			t.Errorf("%d: %q of mirror %d", c.code, body, a.Mirror)
		}
	}
	other.server.CloseClientConnections()
	other.server.Close()
	code.Store(404)
	_, _, err := first.ask(t, Request{Path: "a", Proved: true})
	if !Failing(err) {
		t.Errorf("one mirror does not have it, the other is away: %v", err)
	}
}

// TestCertificates: an origin needs a certificate of an authority that the source trusts, for its name.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ok := func(http.ResponseWriter, *http.Request) {}
	for name, edit := range map[string]func(*Config, *Deps){
		"nobody is trusted":    func(c *Config, _ *Deps) { c.Roots = x509.NewCertPool() },
		"those of the machine": func(c *Config, _ *Deps) { c.Roots = nil },
		"another name": func(c *Config, d *Deps) {
			c.URLs[0] = strings.Replace(c.URLs[0], "127.0.0.1", "other.invalid.test", 1)
			d.Resolver = resolver(t, func(string, int64) []string { return []string{"127.0.0.1"} })
		},
	} {
		r := newRig(t, ok, edit)
		_, _, err := r.get(t, "a")
		want(t, name, err, status.Upstream, "certificate")
		if n := r.asked.Load() + r.retried.Load(); n != 0 {
			t.Errorf("%s: %d requests and tries", name, n)
		}
	}
}

// TestCanceled: the end of the caller's context ends the request with its cause, and the breaker counts nothing.
func TestCanceled(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 8) // bound: the requests of this test
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) { begun <- struct{}{}; <-q.Context().Done() },
		func(c *Config, _ *Deps) { c.Params.BreakerMinCalls = 1 })
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := status.Errorf(status.Draining, "the node stops")
	go func() { <-begun; cancel(cause) }()
	if _, err := r.Get(ctx, Request{Path: "a"}); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if r.breaker.Counts().TotalFailures != 0 {
		t.Error("the breaker counts it as a failure")
	}
}
