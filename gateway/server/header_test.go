package server

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"allium/gateway/server/conns"
	"allium/internal/limits"
)

// TestHeaderAsNetHTTP: each answer has the same bytes as that of net/http alone.
func TestHeaderAsNetHTTP(t *testing.T) {
	t.Parallel()
	fields := http.Header{
		"Content-Type": {"text/plain"}, "X-Corr-Id": {"1"}, "Vary": {"Origin", " Accept "}, "Etag": {`"x"`},
		"Cache-Control": {"no-store"}, "Access-Control-Allow-Origin": nil, "Link": {strings.Repeat("v", 8<<10)},
	}
	answers := map[string]http.HandlerFunc{}
	for _, code := range []int{200, 204, 206, 304, 404, 429, 500, 599} {
		for _, size := range []int{0, 1, 1000, 2048, 4000, 4096, 5000, 8192, 100_000} {
			for _, parts := range []int{1, 3} {
				answers[fmt.Sprintf("%d of %d in %d", code, size, parts)] = func(w http.ResponseWriter, _ *http.Request) {
					if code != http.StatusNoContent && code != http.StatusNotModified {
						w.Header().Set("Content-Length", fmt.Sprint(size))
					} else if size > 1 {
						w.Header().Del("Content-Type")
					}
					w.WriteHeader(code)
					w.Header().Set("X-Late", "1")
					for i := range parts {
						_, _ = w.Write(bytes.Repeat([]byte("b"), size*(i+1)/parts-size*i/parts))
					}
				}
			}
		}
	}
	set := func(name string, values ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			w.Header()[name] = values
			_, _ = io.WriteString(w, "body")
		}
	}
	answers["close"], answers["lines"] = set("Connection", "close"), set("Etag", "a\r\nb")
	answers["no type"], answers["no length"] = set("Content-Type"), set("Content-Length")
	answers["a bad length"], answers["a date"] = set("Content-Length", "four"), set("Date", "now")
	answers["nothing"] = func(http.ResponseWriter, *http.Request) {}
	answers["no field"] = func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) }
	answers["a trailer"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-End")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-End", "1")
	}
	got, want := rawServer(t, fields, answers, true), rawServer(t, fields, answers, false)
	for name := range answers {
		for _, method := range []string{"GET", "HEAD"} {
			for _, more := range []string{"", "Connection: close\r\n"} {
				g, w := got(method, name, more), want(method, name, more)
				if g != w || !strings.HasPrefix(g, "HTTP/1.1 ") {
					t.Errorf("%s %s: %.200q\nwant %.200q", method, name, g, w)
				}
			}
		}
	}
}

// dates are the fields that two answers may not have alike.
var dates = regexp.MustCompile(`Date: .*GMT`)

// rawServer starts a server of answers with fields, and returns a function that asks for one twice over a connection
// and returns all bytes. own says whether HeaderWriter writes their headers.
func rawServer(
	t *testing.T, fields http.Header, answers map[string]http.HandlerFunc, own bool,
) func(method, name, more string) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		d := &delivery{out: out, rc: *http.NewResponseController(out), r: r}
		d.Begin(transportOf{d})
		if own {
			d.header = conns.Of(r).Header()
			d.header.NewRequest()
		}
		for name, values := range fields {
			d.Header()[name] = values
		}
		answers[r.Header.Get("Answer")](&d.Response, r)
		if !d.Started() {
			d.passHeader()
		}
	}))
	_ = s.Listener.Close()
	var registry *limits.Registry
	s.Listener = conns.Listen(l, conns.Config{
		Limits: conns.Limits{All: registry.NewGate(limits.Spec{Name: "gateway.conns"}, 100, 0)},
		Exempt: func(netip.Addr) bool { return false }, HalfClosed: conns.NewHalfClosed(),
	})
	s.Config.ConnContext = conns.WithConn
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return func(method, name, more string) string {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		one := method + " / HTTP/1.1\r\nHost: x\r\nAnswer: " + name + "\r\n"
		if more == "" {
			one += "\r\n" + one
		}
		if _, err := io.WriteString(c, one+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return dates.ReplaceAllString(string(all), "Date: now")
	}
}
