package gateway

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// slowFor makes TestSlowDownload one at 10 kB/s with the limits of a node.
var slowFor = flag.Duration("slow-download", 0, "let TestSlowDownload take as long, at 10 kB/s with the default limits")

// TestSlowEnd: an answer that the kernel could take at once is not over before
// its client has most of it: an HTTP/2 connection that is idle is closed, and the
// rest of the answer thrown away.
func TestSlowEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some 8 s")
	}
	const rate, size = 400_000, 3_000_000
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) {
		c.WriteTimeout, c.MinRate, c.IdleTimeout = time.Second, 128<<10, 2*time.Second
	}))
	client := a.https(t, n, true)
	client.Transport.(*http.Transport).DialContext = dialThrottled(address(t, n.Addrs().Gateway), rate)
	root := n.objects.put(make([]byte, size))
	got := fetch(t, client, http.MethodGet, n.Addrs().Gateway+"/o/"+root.String())
	if got.err != nil || len(got.body) != size {
		t.Errorf("%d bytes of %d: %v", len(got.body), size, got.err)
	}
}

// throttled is a connection whose reader takes so many bytes per second.
type throttled struct {
	net.Conn
	rate  int
	began time.Time
	took  int
}

func (c *throttled) Read(p []byte) (int, error) {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	n, err := c.Conn.Read(p[:min(len(p), c.rate/20)])
	c.took += n
	time.Sleep(time.Until(c.began.Add(time.Duration(c.took) * time.Second / time.Duration(c.rate))))
	return n, err
}

// dialThrottled connects with a small buffer of the client's, so that what waits
// is on the gateway's side.
func dialThrottled(addr string, rate int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &throttled{Conn: c, rate: rate}, c.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
}

// TestSlowDownload: a client that reads slowly, but fast enough, gets all of it,
// though the kernel takes nothing for long. Another one that reads nothing is cut
// off.
func TestSlowDownload(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some 15 s")
	}
	rate, size := 400_000, 6_000_000
	limits := func(c *Config, _ *server.AdminConfig) { c.WriteTimeout, c.MinRate = time.Second, 128<<10 }
	if *slowFor > 0 {
		rate = 10_000
		size = int(slowFor.Seconds()) * rate
		limits = func(c *Config, _ *server.AdminConfig) {
			c.WriteTimeout, c.MinRate = DefaultConfig().WriteTimeout, DefaultConfig().MinRate
		}
	}
	a := newAuthority(t)
	for name, c := range map[string]struct{ tls, h2 bool }{"h1": {}, "TLS": {tls: true}, "h2": {tls: true, h2: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []option{limits}
			if c.tls {
				opts = []option{a.withTLS(t, limits)}
			}
			n := start(t, opts...)
			data := make([]byte, size)
			root := n.objects.put(data)
			still := n.objects.put(make([]byte, 64<<20))
			get := func(root b3.Root, rate int) *http.Response {
				client := a.https(t, n, c.h2)
				tr := client.Transport.(*http.Transport)
				tr.DialContext = dialThrottled(address(t, n.Addrs().Gateway), rate)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.Addrs().Gateway+"/o/"+root.String(), nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { resp.Body.Close() })
				return resp
			}
			get(still, 8000) //nolint:bodyclose // get closes it
			begun := time.Now()
			resp := get(root, rate) //nolint:bodyclose // get closes it
			got, err := io.Copy(io.Discard, resp.Body)
			if err != nil || got != int64(size) {
				t.Errorf("%d bytes of %d after %s: %v", got, size, time.Since(begun), err)
			}
			t.Logf("%d bytes in %s", got, time.Since(begun))
			testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
		})
	}
}
