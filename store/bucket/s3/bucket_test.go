package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"allium/protocols/status"
	"allium/store/bucket/s3"
	"allium/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, cfg s3.Config) s3.Bucket {
	t.Helper()
	b, err := s3.Open(cfg, s3.NewMeters(cfg, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func put(t testing.TB, b s3.Bucket, key string, p []byte) {
	t.Helper()
	if err := b.Put(t.Context(), key, bytes.NewReader(p), int64(len(p)), false); err != nil {
		t.Fatal(err)
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	b := open(t, g.Config())
	for _, size := range []int{0, 1, 100, 16 << 20, 16<<20 + 1, 33<<20 + 7} {
		key := fmt.Sprintf("o/%d", size)
		p := storetest.Bytes(uint64(size), size)
		_, err := b.Stat(t.Context(), key)
		storetest.Want(t, err, status.NotFound)
		storetest.Want(t, b.ReadAt(t.Context(), key, make([]byte, 1), 0), status.NotFound)
		if err := b.Put(t.Context(), key, bytes.NewReader(p), int64(size), true); err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), key, bytes.NewReader(p), int64(size), true); !errors.Is(err, s3.ErrExists) {
			t.Fatalf("the second conditional put of %d bytes says %v", size, err)
		}
		got, err := b.Stat(t.Context(), key)
		if err != nil || got != int64(size) {
			t.Fatalf("stat says %d, %v", got, err)
		}
		for _, r := range [][2]int{{0, size}, {size / 3, size / 2}, {max(0, size-10), size}} {
			part := make([]byte, r[1]-r[0])
			if err := b.ReadAt(t.Context(), key, part, int64(r[0])); err != nil || !bytes.Equal(part, p[r[0]:r[1]]) {
				t.Fatalf("bytes %v of %d: %v", r, size, err)
			}
		}
		for _, off := range []int{size - 1, size, size + 1000} {
			if off < 0 {
				continue
			}
			if err := b.ReadAt(t.Context(), key, make([]byte, 2), int64(off)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("two bytes at %d of %d: %v", off, size, err)
			}
		}
		put(t, b, key, p[:size/2])
		if got, err := b.Stat(t.Context(), key); err != nil || got != int64(size/2) {
			t.Fatalf("after it was replaced stat says %d, %v", got, err)
		}
		for range 2 {
			if err := b.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		_, err = b.Stat(t.Context(), key)
		storetest.Want(t, err, status.NotFound)
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	b := open(t, g.Config())
	var want []string
	for i := range 1100 { // two pages
		key := fmt.Sprintf("l/%02x/%04d", i%7, i)
		want = append(want, key)
		put(t, b, key, []byte(key)[:1+i%5])
	}
	put(t, b, "m/1", nil)
	slices.Sort(want)
	var got []string
	for item, err := range b.List(t.Context(), "l/") {
		if err != nil {
			t.Fatal(err)
		}
		if item.Size < 1 || item.Size > 5 {
			t.Fatalf("%+v", item)
		}
		got = append(got, item.Key)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d keys are listed, want %d", len(got), len(want))
	}
	n := 0
	for range b.List(t.Context(), "l/") {
		if n++; n == 1050 {
			break
		}
	}
	for item, err := range b.List(t.Context(), "none/") {
		t.Fatalf("%+v, %v", item, err)
	}
}

// TestConditionalRace puts one key from many goroutines at once: exactly one succeeds.
func TestConditionalRace(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := g.Config()
	for round := range 5 {
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			b := open(t, cfg)
			wg.Go(func() {
				p := storetest.Bytes(uint64(i), 5000)
				switch err := b.Put(t.Context(), fmt.Sprintf("k/%d", round), bytes.NewReader(p), 5000, true); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, s3.ErrExists):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d conditional puts of one key succeeded", won.Load())
		}
	}
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	b := open(t, g.Config())
	put(t, b, "k", []byte("value"))
	g.Kill()
	storetest.Want(t, b.ReadAt(t.Context(), "k", make([]byte, 5), 0), status.Upstream)
	storetest.Want(t, b.Put(t.Context(), "k", strings.NewReader("value"), 5, false), status.Upstream)
	storetest.Want(t, b.Put(t.Context(), "l", bytes.NewReader(make([]byte, 17<<20)), 17<<20, true), status.Upstream)
	_, err := b.Stat(t.Context(), "k")
	storetest.Want(t, err, status.Upstream)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	storetest.Want(t, b.Delete(ctx, "k"), status.Canceled)
	g.Start(t)
	p := make([]byte, 5)
	if err := b.ReadAt(t.Context(), "k", p, 0); err != nil || string(p) != "value" {
		t.Fatalf("after the restart: %q, %v", p, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	bad := g.Config()
	bad.CredentialsFile = filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(bad.CredentialsFile, []byte("aws_access_key_id=allium\naws_secret_access_key=wrong\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, bad)
	storetest.Want(t, b.Put(t.Context(), "k", strings.NewReader("v"), 1, false), status.Forbidden)
	_, err := b.Stat(t.Context(), "k")
	storetest.Want(t, err, status.Forbidden)

	none := g.Config()
	none.URL = "s3://nobucket/x"
	b = open(t, none)
	storetest.Want(t, b.ReadAt(t.Context(), "k", make([]byte, 1), 0), status.Upstream)

	bad.CredentialsFile += ".missing"
	_, err = s3.Open(bad, s3.NewMeters(bad, nil, nil))
	storetest.Want(t, err, status.Unauthenticated)
	empty := g.Config()
	empty.CredentialsFile = filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty.CredentialsFile, []byte("[other]\naws_access_key_id=a\naws_secret_access_key=b\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s3.Open(empty, s3.NewMeters(empty, nil, nil))
	storetest.Want(t, err, status.Unauthenticated)
}

// scripted is a server whose answers the test defines.
func scripted(t *testing.T, handler http.HandlerFunc) s3.Bucket {
	t.Helper()
	return open(t, fake(t, handler))
}

// fake returns the configuration of a bucket on a scripted server, with a timeout that is
// long enough for a busy machine.
func fake(t *testing.T, handler http.HandlerFunc) s3.Config {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	cfg := storetest.FakeS3(t, server.URL)
	cfg.Timeout = time.Minute
	return cfg
}

func s3Error(w http.ResponseWriter, code int, name string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(code)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", name)
}

// TestTries: an error that a retry may cure is tried three times, any other error once.
func TestTries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		code  int
		error string
		want  status.Outcome
		tries int64
	}{
		{"internal", 500, "InternalError", status.Upstream, 3},
		{"slow down", 503, "SlowDown", status.Upstream, 3},
		{"conflict", 409, "ConditionalRequestConflict", status.Upstream, 3},
		{"denied", 403, "AccessDenied", status.Forbidden, 1},
		{"full", 507, "XMinioStorageFull", status.NoSpace, 1},
		{"quota", 400, "QuotaExceeded", status.NoSpace, 1},
		{"no bucket", 404, "NoSuchBucket", status.Upstream, 1},
		{"absent", 404, "NoSuchKey", status.NotFound, 1},
		{"malformed", 400, "InvalidRequest", status.Upstream, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
				tries.Add(1)
				s3Error(w, test.code, test.error)
			})
			storetest.Want(t, b.ReadAt(t.Context(), "k", make([]byte, 3), 0), test.want)
			if tries.Load() != test.tries {
				t.Errorf("it was tried %d times, want %d", tries.Load(), test.tries)
			}
		})
	}
}

func TestRetryHelps(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		switch tries.Add(1) {
		case 1:
			s3Error(w, 503, "SlowDown")
		case 2: // cut off
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte("a"))
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Length", "3")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte("abc"))
		}
	})
	p := make([]byte, 3)
	if err := b.ReadAt(t.Context(), "k", p, 0); err != nil || string(p) != "abc" {
		t.Fatalf("%q, %v", p, err)
	}
}

// TestPartsStoredWrongly: a put in parts fails if the object that the server made of them has another size, and
// that object is deleted.
func TestPartsStoredWrongly(t *testing.T) {
	t.Parallel()
	const size = 16<<20 + 1
	for _, more := range []int64{0, 1385, -1} {
		var deleted, completed atomic.Int64
		b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			q := r.URL.Query()
			w.Header().Set("Content-Type", "application/xml")
			switch {
			case r.Method == http.MethodPost && q.Has("uploads"):
				fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
			case r.Method == http.MethodPut:
				w.Header().Set("ETag", `"e"`)
			case r.Method == http.MethodPost:
				completed.Add(1)
				fmt.Fprint(w, `<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>"e"</ETag>`+
					"</CompleteMultipartUploadResult>")
			case r.Method == http.MethodDelete:
				deleted.Add(1)
				w.WriteHeader(http.StatusNoContent)
			case more < 0:
				w.WriteHeader(http.StatusNotFound)
			default:
				w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
				w.Header().Set("ETag", `"e"`)
				w.Header().Set("Content-Length", strconv.FormatInt(size+more, 10))
			}
		})
		err := b.Put(t.Context(), "k", bytes.NewReader(make([]byte, size)), size, false)
		if completed.Load() != 1 || deleted.Load() != max(0, min(1, more)) {
			t.Errorf("%d bytes more: %d uploads, %d objects deleted", more, completed.Load(), deleted.Load())
		}
		if more == 0 {
			storetest.Want(t, err, status.OK)
			continue
		}
		storetest.Want(t, err, status.Upstream)
		if more > 0 && !strings.Contains(err.Error(), "the bucket does not store what it is sent") {
			t.Error(err)
		}
	}
}

func TestRangeIgnored(t *testing.T) {
	t.Parallel()
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte("the whole object"))
	})
	storetest.Want(t, b.ReadAt(t.Context(), "k", make([]byte, 3), 4), status.Upstream)
}

// retries returns the value of the metric of retries.
func retries(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "store_bucket_retries_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("retries are not counted")
	return 0
}

// TestSlowServer: a server that accepts connections and never answers costs three timeouts
// and no more.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	cfg := fake(t, func(http.ResponseWriter, *http.Request) { <-over })
	t.Cleanup(func() { close(over) })
	cfg.Timeout = 200 * time.Millisecond
	reg := prometheus.NewRegistry()
	b, err := s3.Open(cfg, s3.NewMeters(cfg, nil, reg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	storetest.Want(t, b.ReadAt(t.Context(), "k", make([]byte, 3), 4), status.Timeout)
	// The metric counts, not the server: a try may end before it reaches the server.
	if n := retries(t, reg); n != 2 {
		t.Errorf("it was tried again %g times", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	storetest.Want(t, b.ReadAt(ctx, "k", make([]byte, 3), 4), status.Timeout)
}

// TestRefusalCutOff: a server that has the object rejects the put before it has read the
// bytes and closes the connection, so that its response is lost.
func TestRefusalCutOff(t *testing.T) {
	t.Parallel()
	const size = 8 << 20 // more than the connection takes in
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Length", strconv.Itoa(size))
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err := b.Put(t.Context(), "there", bytes.NewReader(make([]byte, size)), size, true); !errors.Is(err,
		s3.ErrExists) {
		t.Fatalf("a put of what is there says %v", err)
	}
	if err := b.Put(t.Context(), "there", bytes.NewReader(make([]byte, size)), size, false); !s3.Away(err) {
		t.Fatalf("a put that has to be made says %v", err)
	}
}

// TestUnconditionalServer: for a server without If-None-Match the client looks for the object
// before it puts.
func TestUnconditionalServer(t *testing.T) {
	t.Parallel()
	var puts atomic.Int64
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead && strings.HasSuffix(r.URL.Path, "/there"):
			w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Length", "1")
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case r.Header.Get("If-None-Match") != "":
			_, _ = io.Copy(io.Discard, r.Body)
			s3Error(w, http.StatusNotImplemented, "NotImplemented")
		default:
			_, _ = io.Copy(io.Discard, r.Body)
			puts.Add(1)
		}
	})
	for range 2 {
		if err := b.Put(t.Context(), "new", strings.NewReader("v"), 1, true); err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), "there", strings.NewReader("v"), 1, true); !errors.Is(err, s3.ErrExists) {
			t.Fatal(err)
		}
	}
	if puts.Load() != 2 {
		t.Errorf("%d puts", puts.Load())
	}
}

// TestBrokenReader: a put whose reader fails stores nothing.
func TestBrokenReader(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	b := open(t, g.Config())
	for _, size := range []int64{100, 40 << 20} {
		err := b.Put(t.Context(), "k", bytes.NewReader(make([]byte, size-1)), size, false)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a put of %d bytes that ends early says %v", size, err)
		}
		_, err = b.Stat(t.Context(), "k")
		storetest.Want(t, err, status.NotFound)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := s3.DefaultConfig()
	if err := good.Validate(false); err != nil {
		t.Fatal(err)
	}
	good.URL = "s3://bucket/some/prefix"
	if err := good.Validate(true); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key    string
		change func(*s3.Config)
	}{
		{"store.s3.url", func(c *s3.Config) { c.URL = "" }},
		{"store.s3.url", func(c *s3.Config) { c.URL = "http://bucket" }},
		{"store.s3.url", func(c *s3.Config) { c.URL = "s3:///prefix" }},
		{"store.s3.url", func(c *s3.Config) { c.URL = "s3://bucket/a//b" }},
		{"store.s3.url", func(c *s3.Config) { c.URL = "s3://bucket/../b" }},
		{"store.s3.url", func(c *s3.Config) { c.URL = "s3://bucket/b?x" }},
		{"store.s3.endpoint", func(c *s3.Config) { c.Endpoint = "127.0.0.1:7070" }},
		{"store.s3.endpoint", func(c *s3.Config) { c.Endpoint = "ftp://host" }},
		{"store.s3.endpoint", func(c *s3.Config) { c.Endpoint = "http://host/path" }},
		{"store.s3.node", func(c *s3.Config) { c.Node = "A/B" }},
		{"store.s3.requests", func(c *s3.Config) { c.Requests = 0 }},
		{"store.s3.ship_after", func(c *s3.Config) { c.ShipAfter = 0 }},
		{"store.s3.read_ahead", func(c *s3.Config) { c.ReadAhead = -1 }},
	} {
		cfg := good
		test.change(&cfg)
		if err := cfg.Validate(true); err == nil || !strings.Contains(err.Error(), test.key) {
			t.Errorf("%s: %v", test.key, err)
		}
	}
}
