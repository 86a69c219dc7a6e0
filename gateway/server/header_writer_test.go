package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// wire keeps what is written to a connection, and fails at room bytes.
type wire struct {
	net.Conn
	got  bytes.Buffer
	room int
}

var errFull = errors.New("nobody reads")

func (w *wire) Write(p []byte) (int, error) {
	if w.got.Len()+len(p) > w.room {
		n, _ := w.got.Write(p[:w.room-w.got.Len()])
		return n, errFull
	}
	return w.got.Write(p)
}

// The header that net/http writes, and the one that replaces it, for a body of 5000 bytes.
const (
	told   = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nDate: now\r\n\r\n"
	wanted = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Type: text/plain\r\nEtag: \"1\"\r\nDate: now\r\n\r\n"
)

// begun returns a connection to w with a pending header, of whose body part bytes are being written.
func begun(t *testing.T, w *wire, part int) *conn {
	t.Helper()
	k := &conn{Conn: w}
	k.header.newRequest()
	k.header.fields = http.Header{"Etag": {` "1" `}, "Content-Length": {"5000"}, "Content-Type": {"text/plain"}}
	if !k.header.begin(httptest.NewRecorder(), http.StatusOK) {
		t.Fatal("net/http writes the header")
	}
	k.header.announce(part)
	return k
}

// TestHeaderWaits: the beginning of an answer waits for the rest where that is certain to come, and nothing else waits.
func TestHeaderWaits(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", netHTTPBuffer-len(told))
	for _, c := range []struct {
		name  string
		part  int
		first string // of the body
		held  bool
	}{
		{"the most of the body", 5000, full, true},
		{"the header alone", 5000, "", true},
		{"no body", 0, "", false},
		{"a part that net/http keeps", len(full) + netHTTPBuffer, full, false},
		{"a part that it does not keep", len(full) + netHTTPBuffer + 1, full, true},
		{"a part that is sent", len(full), full, false},
	} {
		w := &wire{room: 1 << 20}
		k := begun(t, w, c.part)
		if n, err := k.Write([]byte(told + c.first)); n != len(told)+len(c.first) || err != nil {
			t.Errorf("%s: first: %d, %v", c.name, n, err)
		}
		if held := w.got.Len() == 0; held != c.held {
			t.Errorf("%s: held %t", c.name, held)
		}
		for _, p := range []string{"rest", told, "more"} { // net/http may write headers of its own
			if n, err := k.Write([]byte(p)); n != len(p) || err != nil {
				t.Errorf("%s: %d, %v", c.name, n, err)
			}
		}
		if got := w.got.String(); got != wanted+c.first+"rest"+told+"more" {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	k := begun(t, &wire{}, 0)
	if _, err := k.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); !errors.Is(err, errNetHTTPHeader) {
		t.Errorf("another header: %v", err)
	}
}

// TestHeaderFails: what of the second write was not sent is told.
func TestHeaderFails(t *testing.T) {
	t.Parallel()
	for room := range len(wanted) + 5000 {
		w := &wire{room: room}
		k := begun(t, w, 5000)
		if _, err := k.Write([]byte(told)); err != nil {
			t.Fatal(err)
		}
		n, err := k.Write(make([]byte, 5000))
		if want := max(0, room-len(wanted)); n != want || !errors.Is(err, errFull) {
			t.Errorf("room for %d: %d, %v; want %d", room, n, err, want)
		}
	}
}

// TestHeaderAsNetHTTP: each answer has the same bytes as that of net/http alone.
func TestHeaderAsNetHTTP(t *testing.T) {
	t.Parallel()
	fields := http.Header{
		"Content-Type": {"text/plain"}, "X-Corr-Id": {"1"}, "Vary": {"Origin", " Accept "}, "Etag": {`"x"`},
		"Cache-Control": {"no-store"}, "Access-Control-Allow-Origin": nil, "Link": {strings.Repeat("v", 2*netHTTPBuffer)},
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
// and returns all bytes. own says whether headerWriter writes their headers.
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
			d.header = &connOf(r).header
			d.header.newRequest()
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
	s.Listener = wrapped{l}
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return withConn(ctx, c) }
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

// wrapped wraps each connection in a conn.
type wrapped struct{ net.Listener }

func (l wrapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &conn{Conn: c, release: func() {}}, err
}
