package node_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"allium/node/config"
)

// BenchmarkGatewayGet is one GET of an object in the hot tier over a kept
// connection of a real node. The client writes the same bytes and reads into
// the same buffer, so that what is allocated is the node's.
func BenchmarkGatewayGet(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			get := kept(b, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				get()
			}
		})
	}
}

// BenchmarkAssetHit is one GET of a file of a source that is fresh in the store, and one of the same object by its
// address.
func BenchmarkAssetHit(b *testing.B) {
	p := make([]byte, 64<<10)
	_, source := originOf(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		_, _ = w.Write(p)
	})
	n := start(b, func(c *config.Config) { source(c); c.Gateway.Rate, c.Gateway.Burst = 1e9, 1<<30 })
	hit := "/edge/assets/o/file"
	for range 20 { // into the hot tier
		fetch(b, n.ID().Gateway+hit)
	}
	address := strings.Trim(fetch(b, n.ID().Gateway+hit).header.Get("ETag"), `"`)
	for name, path := range map[string]string{"hit": hit, "address": "/o/" + address} {
		get := askRaw(b, n.ID().Gateway, len(p))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				get(path)
			}
		})
	}
}

// kept starts a node, puts an object of size bytes into it and returns what
// asks for that over one connection.
func kept(tb testing.TB, size int) (get func()) {
	tb.Helper()
	n := start(tb, func(c *config.Config) { c.Gateway.Rate, c.Gateway.Burst = 1e9, 1<<30 })
	root, _ := addBytes(tb, n, 1, size)
	ask := askRaw(tb, n.ID().Gateway, size)
	path := "/o/" + root.String()
	get = func() { ask(path) }
	for range 20 { // into the hot tier
		get()
	}
	return get
}

// askRaw returns a function that asks for a path over one connection. All answers must have bodies of size bytes and
// headers of one length. It allocates nothing beside the request.
func askRaw(tb testing.TB, url string, size int) (get func(path string)) {
	tb.Helper()
	host, base, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	if base != "" {
		base = "/" + base
	}
	c, err := net.Dial("tcp", host)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	var request []byte
	buf := make([]byte, size+4<<10)
	length := 0
	return func(path string) {
		request = append(append(append(append(request[:0], "GET "...), base...), path...), " HTTP/1.1\r\nHost: "...)
		request = append(append(request, host...), "\r\n\r\n"...)
		if _, err := c.Write(request); err != nil {
			tb.Fatal(err)
		}
		got := 0
		for length == 0 || got < length {
			m, err := c.Read(buf[got:])
			if err != nil {
				tb.Fatal(err)
			}
			got += m
			if head := bytes.Index(buf[:got], []byte("\r\n\r\n")); length == 0 && head > 0 {
				length = head + 4 + size
			}
			if !bytes.HasPrefix(buf, []byte("HTTP/1.1 2")) {
				tb.Fatalf("%s: %s", path, buf[:got])
			}
		}
		if got != length || !bytes.HasPrefix(buf, []byte("HTTP/1.1 200 OK\r\n")) {
			tb.Fatalf("%d bytes, want %d: %s", got, length, buf[:40])
		}
	}
}

// TestGatewayGetAllocations: an object in the hot tier costs few allocations,
// those that net/http makes included.
func TestGatewayGetAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates too")
	}
	const most = 20
	get := kept(t, 4<<10)
	n := testing.AllocsPerRun(200, get)
	for i := 0; i < 20 && n > most; i++ { // what else the node does allocates too, the more the longer it takes
		n = min(n, testing.AllocsPerRun(200, get))
	}
	if n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}
