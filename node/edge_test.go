package node_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"allium/gateway/api"
	"allium/gateway/fill"
	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/store"
)

// fetched is an answer that was read to its end, or until it was cut.
type fetched struct {
	code   int
	header http.Header
	body   []byte
	err    error
}

func fetch(t testing.TB, url string, headers ...string) (f fetched) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	f.code, f.header = resp.StatusCode, resp.Header
	f.body, f.err = io.ReadAll(resp.Body)
	return f
}

// originOf runs an https origin and returns a change of the configuration that makes it the source "o".
func originOf(t testing.TB, serve http.HandlerFunc) (url string, change func(*config.Config)) {
	t.Helper()
	s := httptest.NewTLSServer(serve)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write(t, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s.URL, func(c *config.Config) {
		src := fill.DefaultSource()
		src.URL, src.Private, src.CAFile = s.URL, true, file
		c.Edge.Fill.Sources = map[string]fill.Source{"o": src}
	}
}

// TestLiveFill fills a large file through the store on disk and in RAM: clients get it while it arrives, then it is an
// object as any other. A node on disk knows it after a restart, and one in RAM has forgotten it.
func TestLiveFill(t *testing.T) {
	noLeaks(t)
	p := make([]byte, 10<<20+7)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(p) // never fails
	for _, amnesia := range []bool{false, true} {
		var asked atomic.Int64
		arrived := make(chan struct{})
		_, source := originOf(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(p)))
				w.Header().Set("ETag", `"v1"`)
				w.Header().Set("Cache-Control", "max-age=3600")
				_, _ = w.Write(p[:1<<20])
				_ = http.NewResponseController(w).Flush()
				<-arrived
				_, _ = w.Write(p[1<<20:])
				return
			}
			w.Header().Set("ETag", `"v1"`)
			_, _ = w.Write(p)
		})
		home := t.TempDir()
		n := startAt(t, home, func(c *config.Config) {
			source(c)
			if c.Node.Amnesia = amnesia; amnesia {
				c.Store.Backend = store.BackendMemory
			}
		})
		url := n.ID().Gateway + "/edge/assets/o/a.bin"
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newGet(t, url))
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 512<<10)
		if _, err := io.ReadFull(resp.Body, head); err != nil { // while the origin waits
			t.Fatal(err)
		}
		var others sync.WaitGroup
		for range 20 {
			others.Go(func() {
				if f := fetch(t, url); f.err != nil || !bytes.Equal(f.body, p) {
					t.Errorf("%d: %v, %d bytes", f.code, f.err, len(f.body))
				}
			})
		}
		close(arrived)
		rest, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !bytes.Equal(append(head, rest...), p) {
			t.Errorf("%v, %d bytes", err, len(head)+len(rest))
		}
		others.Wait()
		root := b3.Sum(p)
		if f := fetch(t, url); f.header.Get("ETag") != `"`+root.String()+`"` || !bytes.Equal(f.body, p) {
			t.Errorf("%d %v", f.code, f.header)
		}
		if f := fetch(t, url, "Range", "bytes=5000000-"); f.code != http.StatusPartialContent ||
			!bytes.Equal(f.body, p[5000000:]) {
			t.Errorf("%d", f.code)
		}
		f := fetch(t, url+"?format=bao")
		var proved bytes.Buffer
		d := bao.NewDecoder(root, b3.Range{End: int64(len(p))}, bytes.NewReader(f.body))
		if _, err := io.Copy(&proved, d); err != nil || !bytes.Equal(proved.Bytes(), p) {
			t.Errorf("the encoding: %v", err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
		if amnesia {
			continue
		}
		n.stop()
		again := startAt(t, home, source)
		if f := fetch(t, again.ID().Gateway+"/edge/assets/o/a.bin"); !bytes.Equal(f.body, p) || asked.Load() != 1 {
			t.Errorf("after a restart: %d, %d bytes; %d requests", f.code, len(f.body), asked.Load())
		}
	}
}

func newGet(t testing.TB, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestLiveFillDrains: the drain of the node lets a fill end that can, and cuts one that cannot.
func TestLiveFillDrains(t *testing.T) {
	noLeaks(t)
	p := make([]byte, 1<<20)
	stuck := make(chan struct{})
	_, source := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		_, _ = w.Write(p)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	})
	n := start(t, func(c *config.Config) { source(c) })
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newGet(t, n.ID().Gateway+"/edge/assets/o/a"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n.stop()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d bytes look whole", len(body))
	}
	close(stuck)
}

// TestLiveFillFull: a store without space for the file cuts everybody, and serves what it has.
func TestLiveFillFull(t *testing.T) {
	noLeaks(t)
	large, small := make([]byte, 8<<20), []byte("small")
	_, source := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Cache-Control", "max-age=3600")
		p := small
		if r.URL.Path == "/large" {
			p = large
			w.Header().Set("Trailer", "X") // no length
		}
		_, _ = w.Write(p)
	})
	n := start(t, func(c *config.Config) { source(c); c.Store.MaxBytes = 2 << 20 })
	if !slices.ContainsFunc(ready(t, n).Gates, func(g api.Gate) bool { return g.Name == "fills" && g.Ready }) {
		t.Error("no gate tells of fills")
	}
	base := n.ID().Gateway + "/edge/assets/o/"
	if f := fetch(t, base+"large"); f.code == http.StatusOK && f.err == nil {
		t.Errorf("%d bytes look whole", len(f.body))
	}
	for range 2 {
		if f := fetch(t, base+"small"); string(f.body) != "small" {
			t.Errorf("%d %s", f.code, f.body)
		}
	}
}

// TestLiveFillManifest: a mirror over plain http is a source of the files that a directory of another node names. A lie
// of one mirror is left out.
func TestLiveFillManifest(t *testing.T) {
	noLeaks(t)
	p := make([]byte, 3<<20+1)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(p) // never fails
	dir := filepath.Join(t.TempDir(), "site")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "a.bin"), p)
	a := start(t, nil)
	root := add(t, a, dir)[0].Root.String()
	var lies, honest atomic.Int64
	mirror := func(asked *atomic.Int64, p []byte) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path != "/sub/a.bin" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = w.Write(p)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	lie := bytes.Clone(p)
	lie[1<<20]++
	b := start(t, func(c *config.Config) {
		joining(a)(c)
		src := fill.DefaultSource()
		src.URLs, src.Private, src.Manifest = []string{mirror(&lies, lie), mirror(&honest, p)}, true, root
		c.Edge.Fill.Sources = map[string]fill.Source{"o": src}
	})
	awaitProvider(t, b, root)
	base := b.ID().Gateway + "/edge/assets/o/"
	for range 2 {
		if f := fetch(t, base+"sub/a.bin"); !bytes.Equal(f.body, p) || f.header.Get("ETag") == "" {
			t.Errorf("%d, %d bytes", f.code, len(f.body))
		}
	}
	if f := fetch(t, base+"sub/b.bin"); f.code != http.StatusNotFound {
		t.Errorf("%d", f.code)
	}
	if lies.Load() != 1 || honest.Load() != 1 {
		t.Errorf("the liar was asked %d times, the other %d times", lies.Load(), honest.Load())
	}
}

// TestOfflineManifest: an offline node serves the files of a manifest that it has, and knows at once that others are
// missing: it asks nobody for a manifest, by address or by name.
func TestOfflineManifest(t *testing.T) {
	noLeaks(t)
	dir := filepath.Join(t.TempDir(), "site")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), []byte("there"))
	home := t.TempDir()
	n := startAt(t, home, nil)
	root := add(t, n, dir)[0].Root.String()
	n.stop()
	n = startAt(t, home, func(c *config.Config) {
		c.Names.DNS = true
		c.Edge.Fill.Mode, c.Edge.Fill.Sources = fill.Offline, map[string]fill.Source{}
		for name, key := range map[string]string{
			"has": root, "missing": b3.Sum([]byte("missing")).String(), "name": "releases." + strings.Repeat("a", 20),
			"domain": "releases.example.org",
		} {
			src := fill.DefaultSource()
			src.URL, src.Manifest = "https://origin.invalid/", key
			c.Edge.Fill.Sources[name] = src
		}
	})
	base := n.ID().Gateway + "/edge/assets/"
	if f := fetch(t, base+"has/a"); string(f.body) != "there" {
		t.Errorf("%d %s", f.code, f.body)
	}
	for _, path := range []string{"has/b", "missing/a", "name/a", "domain/a"} {
		if f := fetch(t, base+path); f.code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, f.code, f.body)
		}
	}
}
