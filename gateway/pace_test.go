package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"

	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// overEach runs a test over HTTP/1, HTTP/1 with TLS, and HTTP/2. get requests an object and returns its
// body. Both sides have the buffers that the system gives them.
func overEach(t *testing.T, opt option, test func(t *testing.T, n *testNode, get func(b3.Root) io.Reader)) {
	t.Parallel()
	a := newAuthority(t)
	for name, c := range map[string]struct{ tls, h2 bool }{"h1": {}, "TLS": {tls: true}, "h2": {tls: true, h2: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []option{opt}
			if c.tls {
				opts = []option{a.withTLS(t, opt)}
			}
			n := start(t, opts...)
			test(t, n, func(root b3.Root) io.Reader {
				resp, err := a.https(t, n, c.h2).Do(httpRequest(t, n.Addrs().Gateway+"/o/"+root.String()))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { resp.Body.Close() })
				return resp.Body
			})
		})
	}
}

// TestSlowReader: a client whose kernel acknowledges megabytes at once, and then nothing until the
// client goes on reading, gets all of the object, however slow that is on average.
func TestSlowReader(t *testing.T) {
	// The limits of a node, 40 times as fast: what a client at 3.2 MB/s does takes 40 times as long at
	// 80 kB/s.
	opt := func(c *Config, _ *server.AdminConfig) {
		c.WriteTimeout, c.MinRate, c.StallTimeout = time.Second/8, 40*8<<10, 15*time.Second
	}
	overEach(t, opt, func(t *testing.T, n *testNode, get func(b3.Root) io.Reader) {
		const size = 64 << 20 // more than the sockets buffer
		body := get(n.objects.put(make([]byte, size)))
		if _, err := io.CopyN(io.Discard, body, 1<<20); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // two minutes
		if got, err := io.Copy(io.Discard, body); err != nil || got != size-1<<20 {
			t.Errorf("%d bytes of %d: %v", got, size-1<<20, err)
		}
	})
}

// TestStalledReader: a client that takes nothing for the stall time is cut off.
func TestStalledReader(t *testing.T) {
	opt := func(c *Config, _ *server.AdminConfig) { c.StallTimeout = time.Second }
	overEach(t, opt, func(t *testing.T, n *testNode, get func(b3.Root) io.Reader) {
		body := get(n.objects.put(make([]byte, 64<<20)))
		testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
		if got, err := io.Copy(io.Discard, body); err == nil {
			t.Errorf("%d bytes look complete", got)
		}
	})
}

// TestSlowEnd: an HTTP/2 client may take its time for the end of an answer that the kernels have
// already taken. The connection is idle then, but what the client sends is not answered by a reset.
func TestSlowEnd(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) { c.IdleTimeout = 100 * time.Millisecond }))
	const size = 128 << 10 // a part of it is in the gateway's kernel until the client reads
	root := n.objects.put(make([]byte, size))
	h := a.dialH2(t, n)
	h.must(h.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	h.must(h.Get(1, "/o/"+root.String()))
	testkit.Eventually(t, "the answer is written", func() bool {
		n.objects.mu.Lock()
		defer n.objects.mu.Unlock()
		return len(n.objects.opens) > 0 && n.InFlight() == 0
	})
	for range 25 { // net/http closes the connection after a second
		time.Sleep(100 * time.Millisecond)
		h.must(h.f.WriteWindowUpdate(0, 1))
	}
	all := map[uint32]*heard{1: {}}
	h.until(all, func(m map[uint32]*heard) bool { return m[1].ended && m[0].goAway })
	if got := len(all[1].body); got != size {
		t.Errorf("%d bytes of %d", got, size)
	}
	if got := n.current("gateway.conns"); got != 1 {
		t.Errorf("%d connections while the client reads", got)
	}
	h.must(h.c.Close())
	testkit.Eventually(t, "no connections", func() bool { return n.current("gateway.conns") == 0 })
}

// TestHangingScraper: scrapers that ask for the metrics and then take nothing are cut off after the stall time. Beside
// them another one is answered.
func TestHangingScraper(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.StallTimeout = time.Second })
	many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "many", Help: "x"}, []string{"nr"})
	n.reg.MustRegister(many)
	for i := range 40_000 { // megabytes: more than the sockets buffer
		many.WithLabelValues(fmt.Sprintf("%0100d", i))
	}
	at := strings.TrimPrefix(n.Addrs().Admin, "http://")
	for range 4 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if err := c.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: "+at+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReaderSize(c, 64).ReadString('\n')
		if err != nil || !strings.Contains(line, "200 OK") {
			t.Errorf("%q, %v", line, err)
		}
	}
	if r := do(t, "GET", n.Addrs().Admin+"/metrics"); r.StatusCode != http.StatusOK || !strings.Contains(r.body, "many") {
		t.Errorf("beside them: %s", r.Status)
	}
	testkit.Eventually(t, "their connections are closed", func() bool { return n.current("admin.conns") <= 1 })
}
