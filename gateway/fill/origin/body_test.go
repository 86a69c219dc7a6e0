package origin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

// TestRawBodies: whatever an HTTP/1.1 origin sends, a body that is not whole is an error.
func TestRawBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		proved     bool
		o          status.Outcome
		detail     string
		body       string
	}{
		{"whole", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, status.OK, "", "abc"},
		{"more than it says", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", false, status.OK, "", "abc"},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, status.OK, "", ""},
		{"short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false, status.Upstream, "short", "abc"},
		{"nothing of it", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false, status.Upstream, "", ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			false, status.OK, "", "abc"},
		{"chunked, no end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			false, status.Upstream, "short",
			"abc"},
		{"chunked, cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
			false, status.Upstream, "short", "abc"},
		{"chunked, bad", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
			false, status.Upstream, "short",
			"abc"},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nabc", false, status.Upstream, "no_length", ""},
		{"until the end, proved", "HTTP/1.1 200 OK\r\n\r\nabc", true, status.OK, "", "abc"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nabc", false, status.Upstream, "no_length", ""},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
			false, status.Upstream, "", ""},
		{"negative", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc", false, status.Upstream, "", ""},
		{"too large, told", "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n", false, status.Upstream, "too_large", ""},
		{"no HTTP", "SSH-2.0-OpenSSH_9.6\r\n", false, status.Upstream, "", ""},
		{"nothing", "", false, status.Upstream, "", ""},
		{"endless header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 100) + "\r\n",
			false, status.Upstream, "", ""},
		{"endless hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nX-A: "+strings.Repeat("a", 1000)+"\r\n\r\n", 100),
			false, status.Upstream, "", ""},
		{"gzip as transfer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
			false, status.Upstream, "", ""},
	} {
		s, url := rawOrigin(t, func(conn net.Conn) { _, _ = io.WriteString(conn, c.text) })
		r := newRig(t, func(http.ResponseWriter, *http.Request) {}, func(cfg *Config, _ *Deps) {
			cfg.URLs = []string{url}
			cfg.Roots.AddCert(s.Certificate())
			cfg.Params.Tries = 1
		})
		body, _, err := r.ask(t, Request{Path: "a", Proved: c.proved})
		want(t, c.name, err, c.o, c.detail)
		if body != c.body {
			t.Errorf("%s: %q, not %q", c.name, body, c.body)
		}
		if c.o == status.Upstream && c.detail == "short" && !Failing(err) {
			t.Errorf("%s: no failure of the origin", c.name)
		}
	}
}

// TestTooLarge: a body of unknown length is cut at the bound, over both versions of HTTP.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1 << 20, 1<<20 + 1, 8 << 20} {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			for range size / (32 << 10) {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = w.Write(make([]byte, size%(32<<10)))
		}, nil)
		body, _, err := r.get(t, "a")
		if size <= 1<<20 {
			want(t, "at the bound", err, status.OK, "")
			continue
		}
		want(t, fmt.Sprint(size), err, status.Upstream, "too_large")
		if len(body) > 1<<20 {
			t.Errorf("%d bytes got through", len(body))
		}
	}
}

// TestEarlyReads: a body reads as a reader should, and one without bytes does not begin.
func TestEarlyReads(t *testing.T) {
	t.Parallel()
	b := newBody(io.NopCloser(iotest.OneByteReader(strings.NewReader("abc"))), 10)
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := b.begin(ctx, &Client{cfg: Config{Params: quick()}}, cancel, 3); err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(b, []byte("abc")); err != nil {
		t.Error(err)
	}
	_ = b.Close()
	empty := newBody(io.NopCloser(iotest.ErrReader(nil)), 10)
	if err := empty.begin(ctx, &Client{}, cancel, 3); err == nil {
		t.Error("a reader that reads nothing for ever began")
	}
}

// drip is a body that gives n bytes after each pause.
type drip struct {
	ctx   context.Context
	n     int
	pause time.Duration
}

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.pause):
		return min(d.n, len(p)), nil
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

func (drip) Close() error { return nil }

// TestSlowBodies: an origin may pause for Idle and must not be slower than MinRate; a slow reader costs it nothing.
func TestSlowBodies(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		pause   time.Duration
		consume time.Duration // between two reads
		ok      bool
	}{
		{"fast", 32 << 10, time.Millisecond, 0, true},
		{"at the rate", 40 << 10, 4900 * time.Millisecond, 0, true},
		{"a byte now and then", 1, 4 * time.Second, 0, false},
		{"below the rate", 4 << 10, time.Second, 0, false},
		{"silent", 32 << 10, 6 * time.Second, 0, false},
		{"a slow reader", 32 << 10, time.Millisecond, time.Minute, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			late := 0
			client := &Client{cfg: Config{Params: DefaultParams()}, deps: Deps{TimedOut: func() { late++ }}}
			b := newBody(drip{ctx, c.n, c.pause}, 1<<30)
			if err := b.begin(ctx, client, cancel, -1); err != nil {
				t.Fatal(err)
			}
			begun, p := time.Now(), make([]byte, 64<<10)
			var err error
			for range 200 {
				if _, err = b.Read(p); err != nil {
					break
				}
				time.Sleep(c.consume)
			}
			if (err == nil) != c.ok || !c.ok && (status.Of(err) != status.Timeout || !Failing(err) || late != 1) {
				t.Errorf("%s: %v after %s, %d late", c.name, err, time.Since(begun), late)
			}
			if !c.ok && time.Since(begun) > 30*time.Second {
				t.Errorf("%s: it lasted %s", c.name, time.Since(begun))
			}
			if _, again := b.Read(p); !c.ok && again == nil {
				t.Errorf("%s: a read after the error succeeded", c.name)
			}
			_ = b.Close()
		})
	}
}

// TestFirstByte: the budget to the first byte holds over all tries, whether the header or the body is late.
func TestFirstByte(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"no header": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"no body": func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		},
	} {
		r := newRig(t, serve, func(c *Config, _ *Deps) { c.Params.FirstByte = 100 * time.Millisecond })
		_, _, err := r.get(t, "a")
		want(t, name, err, status.Timeout, "")
		if !Failing(err) || r.late.Load() != 1 {
			t.Errorf("%s: failing %t, %d late", name, Failing(err), r.late.Load())
		}
		r.server.CloseClientConnections()
	}
}

// endsWhenCanceled is a body that ends well once its transfer is canceled, as the rest of an answer does whose origin
// has noticed that nobody wants it any more.
type endsWhenCanceled struct {
	ctx   context.Context
	first io.Reader
}

func (e endsWhenCanceled) Close() error { return nil }

func (e endsWhenCanceled) Read(p []byte) (int, error) {
	if n, err := e.first.Read(p); err == nil {
		return n, nil
	}
	<-e.ctx.Done()
	return 0, io.EOF
}

// TestCanceledEnd: a canceled body of unknown length is not whole, however it ends.
func TestCanceledEnd(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"", "abc"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := newBody(endsWhenCanceled{ctx, strings.NewReader(sent)}, 10)
		gone := status.Errorf(status.Draining, "the node is shutting down")
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		client := &Client{cfg: Config{Params: quick()}}
		err := b.begin(ctx, client, cancel, -1)
		if err == nil {
			_, err = io.ReadAll(b)
			if status.Of(err) != status.Draining || b.Failed() == nil {
				t.Errorf("%q: %v", sent, err)
			}
		}
		if err == nil {
			t.Errorf("%q: it looks whole", sent)
		}
		cancel(nil)
	}
}
