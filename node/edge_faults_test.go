package node_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
)

// filesOf serves random bytes of its own for each path. asked counts the requests.
func filesOf(size int, asked *atomic.Int64) (serve http.HandlerFunc, file func(path string) []byte) {
	file = func(path string) []byte {
		p := make([]byte, size)
		_, _ = rand.NewChaCha8(b3.Sum([]byte(path))).Read(p) // never fails
		return p
	}
	return func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = w.Write(file(r.URL.Path))
	}, file
}

// TestLiveFillFullDisk: a full disk ends a fill, and what it had of it never looks whole. It heals.
func TestLiveFillFullDisk(t *testing.T) {
	noLeaks(t)
	var asked atomic.Int64
	serve, file := filesOf(3<<20+1, &asked)
	_, source := originOf(t, serve)
	n := start(t, source)
	base := n.ID().Gateway + "/edge/assets/o"
	fetch(t, base+"/a")
	set(t, n, api.Faults{FullDisk: true})
	if f := fetch(t, base+"/b"); f.code == http.StatusOK && f.err == nil {
		t.Errorf("%d bytes look whole", len(f.body))
	}
	// The store may have evicted a, which is cache.
	if f := fetch(t, base+"/a"); f.code == http.StatusOK && f.err == nil && !bytes.Equal(f.body, file("/a")) {
		t.Errorf("%d other bytes", len(f.body))
	}
	set(t, n, api.Faults{})
	testkit.Eventually(t, "the disk has space again", func() bool {
		return bytes.Equal(fetch(t, base+"/b").body, file("/b"))
	})
}

// TestLiveFillEvictedWhileServed: a fill that needs the space of a file that a client reads takes none of its bytes
// from the client, and the file is filled again when it is asked for.
func TestLiveFillEvictedWhileServed(t *testing.T) {
	noLeaks(t)
	var asked atomic.Int64
	serve, file := filesOf(8<<20, &asked)
	_, source := originOf(t, serve)
	n := start(t, func(c *config.Config) { source(c); c.Store.MaxBytes = 20 << 20 })
	base := n.ID().Gateway + "/edge/assets/o"
	fetch(t, base+"/a")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newGet(t, base+"/a"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	head := make([]byte, 64<<10)
	if _, err := io.ReadFull(resp.Body, head); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/b", "/c", "/d"} { // there is space for two
		if f := fetch(t, base+path); f.code == http.StatusOK && f.err == nil && !bytes.Equal(f.body, file(path)) {
			t.Errorf("%s: %d other bytes", path, len(f.body))
		}
	}
	rest, err := io.ReadAll(resp.Body)
	if got := append(head, rest...); err == nil && !bytes.Equal(got, file("/a")) {
		t.Errorf("%d of %d bytes look whole", len(got), resp.ContentLength)
	}
	before := asked.Load()
	if f := fetch(t, base+"/a"); !bytes.Equal(f.body, file("/a")) || f.err != nil {
		t.Errorf("%d, %d bytes, %v", f.code, len(f.body), f.err)
	}
	if f := fetch(t, base+"/d"); !bytes.Equal(f.body, file("/d")) || asked.Load() > before+2 {
		t.Errorf("%d, %d bytes; %d requests", f.code, len(f.body), asked.Load())
	}
}

// TestLiveFillDamaged: a file that is damaged on the disk is fetched from the origin again, before its first byte or
// after a cut.
func TestLiveFillDamaged(t *testing.T) {
	noLeaks(t)
	var asked atomic.Int64
	serve, file := filesOf(damagedSize, &asked)
	_, source := originOf(t, serve)
	n := start(t, source)
	for i, d := range damages {
		path := fmt.Sprint("/", i)
		url := n.ID().Gateway + "/edge/assets/o" + path
		want := file(path)
		if f := fetch(t, url); !bytes.Equal(f.body, want) {
			t.Fatalf("%s: %d, %d bytes, %v", d.name, f.code, len(f.body), f.err)
		}
		d.flip(t, n, b3.Sum(want))
		before := asked.Load()
		f := fetch(t, url)
		if f.err == nil && !bytes.Equal(f.body, want) {
			t.Errorf("%s: %d: %d bytes look whole", d.name, f.code, len(f.body))
		}
		for range 2 {
			if f := fetch(t, url); f.err != nil || !bytes.Equal(f.body, want) {
				t.Errorf("%s, again: %d, %d bytes, %v", d.name, f.code, len(f.body), f.err)
			}
		}
		if asked.Load() != before+1 {
			t.Errorf("%s: %d requests", d.name, asked.Load()-before)
		}
	}
}

// TestLiveFillEndsInDrain: a node that stops lets a fill end whose client is there.
func TestLiveFillEndsInDrain(t *testing.T) {
	noLeaks(t)
	want := make([]byte, 1<<20)
	release := make(chan struct{})
	_, source := originOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		_, _ = w.Write(want[:512<<10])
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = w.Write(want[512<<10:])
	})
	n := start(t, source)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newGet(t, n.ID().Gateway+"/edge/assets/o/a"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var stop sync.WaitGroup
	url := n.ID().Gateway + "/o/" + b3.Sum(nil).String()
	stop.Go(func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	})
	for {
		other, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newGet(t, url))
		if err != nil {
			break // it listens no more
		}
		_ = other.Body.Close()
		if other.StatusCode == http.StatusServiceUnavailable {
			break
		}
	}
	close(release)
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	stop.Wait()
}
