package node_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"allium/gateway/verified"
	"allium/node/config"
	"allium/node/local"
	"allium/protocols/status"
)

// front is a proxy before a gateway that counts requests and changes what it answers.
type front struct {
	url      string
	requests atomic.Int64
	bundles  atomic.Int64
	cut      atomic.Int64 // bytes after which a bundle is cut, once; 0: never
	old      atomic.Bool  // the gateway does not know bundles
	flip     atomic.Int64 // the byte of a bundle that is false; 0: none
}

func newFront(t testing.TB, gateway string) *front {
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		if r.URL.Query().Get("format") != "bundle" {
			proxy.ServeHTTP(w, r)
			return
		}
		f.bundles.Add(1)
		if f.old.Load() {
			http.Error(w, "what is that?", http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(&changedAnswer{ResponseWriter: w, cut: f.cut.Swap(0), flip: f.flip.Load()}, r)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

// changedAnswer cuts an answer after so many bytes, or changes one of them.
type changedAnswer struct {
	http.ResponseWriter
	cut, flip, sent int64
}

func (c *changedAnswer) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *changedAnswer) Write(p []byte) (int, error) {
	if at := c.flip - c.sent; c.flip > 0 && at >= 0 && at < int64(len(p)) {
		p = bytes.Clone(p)
		p[at] ^= 1
	}
	if c.cut > 0 && c.sent+int64(len(p)) >= c.cut {
		_, _ = c.ResponseWriter.Write(p[:c.cut-c.sent])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.sent += int64(len(p))
	return c.ResponseWriter.Write(p)
}

// got reads a directory through a gateway and returns its files by their paths.
func got(t testing.TB, base, key string) (map[string]string, error) {
	t.Helper()
	g, err := verified.New(base, verified.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s, err := local.NewGateway(g).Get(t.Context(), key)
	if err != nil {
		return nil, err
	}
	defer s.Body.Close()
	files := map[string]string{}
	in := tar.NewReader(s.Body)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return files, err
		}
		p, err := io.ReadAll(in)
		if err != nil {
			return files, err
		}
		files[h.Name] = string(p)
	}
}

// bundleTree adds a directory of n small files and a large one.
func bundleTree(t testing.TB, n *running, files int) (root string, want map[string]string) {
	t.Helper()
	dir, want := t.TempDir(), map[string]string{"./": ""}
	write := func(name, content string) {
		want[name] = content
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files {
		sub := fmt.Sprintf("d%02d", i%20)
		want[sub+"/"] = ""
		write(fmt.Sprintf("%s/f%05d", sub, i), strings.Repeat(fmt.Sprintf("%08d", i), 512))
	}
	write("empty", "")
	write("large", strings.Repeat("large", 500_000))
	write("middle", strings.Repeat("middle", 30_000))
	return add(t, n, dir)[0].Root.String(), want
}

// TestBundle: a directory of many files takes few requests through a gateway, also when the answer is cut; an older
// gateway is asked for each file; and a false byte anywhere is noticed.
func TestBundle(t *testing.T) {
	t.Parallel()
	files := 10_000
	if testing.Short() {
		files = 1000
	}
	n := start(t, func(c *config.Config) { c.Gateway.Rate = 0 })
	root, want := bundleTree(t, n, files)
	f := newFront(t, n.ID().Gateway)
	check := func(what string, most int64) {
		t.Helper()
		f.requests.Store(0)
		files, err := got(t, f.url, root)
		if err != nil || len(files) != len(want) {
			t.Fatalf("%s: %d files of %d, %v", what, len(files), len(want), err)
		}
		for name, p := range want {
			if files[name] != p {
				t.Fatalf("%s: %s is false", what, name)
			}
		}
		if asked := f.requests.Load(); asked > most {
			t.Errorf("%s: %d requests, of at most %d", what, asked, most)
		}
	}
	check("whole", 4)
	f.cut.Store(2_000_001)
	check("cut", 20)
	f.bundles.Store(0)
	f.old.Store(true)
	if files, err := got(t, f.url, root+"/d03"); err != nil || len(files) < 10 || f.bundles.Load() != 1 {
		t.Errorf("an older gateway: %d files, %v, %d bundles asked for", len(files), err, f.bundles.Load())
	}
	f.old.Store(false)
	for _, at := range []int64{3, 20, 48, 60, 100_000, 2_000_000} {
		f.flip.Store(at)
		if files, err := got(t, f.url, root); status.Of(err) != status.Corrupt {
			t.Errorf("byte %d is false: %d files, %v", at, len(files), err)
		}
	}
}
