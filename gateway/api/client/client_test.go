package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers on a Unix socket and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	c, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close(); <-done })
	return c
}

func TestNotRunning(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	private := filepath.Join(tmp, "run")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(private, "stale"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, target := range []string{
		filepath.Join(tmp, "nothing", "s"), filepath.Join(private, "missing"),
		filepath.Join(private, "stale"), "http://" +
			gone.Addr().String(),
	} {
		c, err := New(target)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.ID(t.Context())
		if !errors.Is(err, ErrNotRunning) || status.Of(err) != status.NotReady ||
			!strings.Contains(err.Error(), "allium run") || strings.Contains(err.Error(), "Get ") {
			t.Errorf("%s: %v", target, err)
		}
		for _, err := range c.Add(t.Context(), strings.NewReader("x"), api.AddOptions{}, nil) {
			if !errors.Is(err, ErrNotRunning) {
				t.Errorf("%s: %v", target, err)
			}
		}
		c.Close()
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"http://", "http://%zz", "https://host?x=y", "http://host#x",
		"https://me:secret@host", "https://me:secret@%zz"} {
		if _, err := New(target); status.Of(err) != status.BadRequest || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestBasePath: requests to a URL with a path go below it.
func TestBasePath(t *testing.T) {
	t.Parallel()
	var asked atomic.Pointer[string]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(&r.URL.Path)
		_, _ = io.WriteString(w, "{}")
	}))
	defer s.Close()
	for _, base := range []string{s.URL, s.URL + "/", s.URL + "/nodes/1", s.URL + "/nodes/1/"} {
		c, err := New(base)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ID(t.Context()); err != nil {
			t.Error(err)
		}
		want := strings.TrimSuffix(strings.TrimPrefix(base, s.URL), "/") + "/api/v1/id"
		if got := *asked.Load(); got != want {
			t.Errorf("%s: asked for %s, not %s", base, got, want)
		}
		c.Close()
	}
}

// TestCut: whatever part of an answer is missing, the caller hears of it.
func TestCut(t *testing.T) {
	t.Parallel()
	const object = `{"root":"b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262","kind":"file","size":0}`
	head := func(w http.ResponseWriter) {
		w.Header().Set(api.HeaderObject, object)
		w.Header().Set("Trailer", api.HeaderStatus)
		_, _ = io.WriteString(w, "abc")
	}
	abort := func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		call   func(context.Context, *Client) error
		want   status.Outcome
	}{
		"no answer": {abort, id, status.TransportDown},
		"half a value": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			say(w, `{"id"`)
			abort(w)
		}, id, status.TransportDown},
		"a broken value": {func(w http.ResponseWriter) { say(w, `{"id"`) }, id, status.Upstream},
		"a web page": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			say(w, "<html>")
		}, id, status.Upstream},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusFound)
		}, id, status.Upstream},
		"a broken problem": {func(w http.ResponseWriter) { problem(w, 503, "{") }, id, status.Upstream},
		"half a problem": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			problem(w, 503, "{")
			abort(w)
		}, id, status.TransportDown},
		"an unknown reason": {func(w http.ResponseWriter) {
			problem(w, 503, `{"reason":"moonphase","detail":"wait"}`)
		}, id, status.BreakerOpen},
		"a problem": {func(w http.ResponseWriter) {
			problem(w, 503, `{"reason":"draining","detail":"wait"}`)
		}, id, status.Draining},
		"no last line": {func(w http.ResponseWriter) { say(w, "{\"item\":{}}\n") }, ls, status.TransportDown},
		"lines cut": {func(w http.ResponseWriter) { say(w, "{\"item\":{}}\n"); abort(w) },
			ls, status.TransportDown},
		"no lines":      {func(http.ResponseWriter) {}, ls, status.TransportDown},
		"a broken line": {func(w http.ResponseWriter) { say(w, "{\n{\"ok\":{}}\n") }, ls, status.Upstream},
		"a broken item": {func(w http.ResponseWriter) { say(w, "{\"item\":7}\n{\"ok\":{}}\n") }, ls, status.Upstream},
		"an endless line": {func(w http.ResponseWriter) { say(w, strings.Repeat("x", maxLine+1)) }, ls,
			status.Upstream},
		"an unknown line": {func(w http.ResponseWriter) { say(w, "{\"news\":1}\n{\"ok\":{}}\n") }, ls, status.OK},
		"an error line": {func(w http.ResponseWriter) {
			say(w, `{"error":{"reason":"no_space","message":"full"}}`+"\n")
		}, ls, status.NoSpace},
		"no trailer": {func(w http.ResponseWriter) { head(w) }, cat, status.TransportDown},
		"bytes cut":  {func(w http.ResponseWriter) { head(w); abort(w) }, cat, status.TransportDown},
		"a broken trailer": {func(w http.ResponseWriter) {
			head(w)
			w.Header().Set(api.HeaderStatus, "fine")
		}, cat, status.Upstream},
		"an error trailer": {func(w http.ResponseWriter) {
			head(w)
			w.Header().Set(api.HeaderStatus, `{"reason":"corrupt"}`)
		}, cat, status.Corrupt},
		"no object": {func(w http.ResponseWriter) { say(w, "abc") }, cat, status.Upstream},
		"all of it": {func(w http.ResponseWriter) {
			head(w)
			w.Header().Set(api.HeaderStatus, api.StatusOK)
		}, cat, status.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("TE") != "trailers" || !strings.HasPrefix(r.URL.Path, "/api/v1/") {
					t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
				}
				c.answer(w)
			})
			if err := c.call(t.Context(), cl); status.Of(err) != c.want || err != nil &&
				strings.Contains(err.Error(), "http://allium") {
				t.Errorf("%v", err)
			}
		})
	}
}

func say(w http.ResponseWriter, s string) { _, _ = io.WriteString(w, s) }

func problem(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	say(w, body)
}

func id(ctx context.Context, c *Client) error { _, err := c.ID(ctx); return err }

func ls(ctx context.Context, c *Client) error {
	for _, err := range c.List(ctx, "x") {
		if err != nil {
			return err
		}
	}
	return nil
}

func cat(ctx context.Context, c *Client) error {
	s, err := c.Cat(ctx, "x", b3.Range{End: -1})
	if err != nil {
		return err
	}
	defer s.Body.Close()
	p, err := io.ReadAll(s.Body)
	if !bytes.Equal(p, []byte("abc")) {
		return errors.New("wrong bytes: " + string(p))
	}
	return err
}

// TestOpenSocketDir: a client hands nothing to a socket in a directory that others
// can write to.
func TestOpenSocketDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := New(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ID(t.Context()); status.Of(err) != status.Forbidden {
		t.Errorf("%v", err)
	}
}
