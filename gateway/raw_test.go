package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// dialRaw connects to the public listener; it is closed with the test.
func dialRaw(t testing.TB, n *testNode) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.Addrs().Gateway, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// readAll reads to the end, which a reset is too.
func readAll(c net.Conn) (string, error) {
	b, err := io.ReadAll(c)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return string(b), err
}

// roundTrip sends raw bytes and expects an answer whose head contains want.
func roundTrip(t testing.TB, c net.Conn, send, want string) {
	t.Helper()
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(send, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if !strings.Contains(resp.Status, want) {
		t.Fatalf("%s, want %s", resp.Status, want)
	}
}

// patience is how long a test waits for what is bound to come: a hang is a
// failure, and a busy machine is none.
const patience = 2 * time.Minute

func TestSlowHeader(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.HeaderTimeout = 50 * time.Millisecond })
	c := dialRaw(t, n)
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if b, err := readAll(c); err != nil || strings.Contains(b, "200 OK") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestIdleConnection(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.IdleTimeout = 50 * time.Millisecond })
	c := dialRaw(t, n)
	roundTrip(t, c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK")
	if b, err := readAll(c); err != nil || b != "" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOversizedHeader(t *testing.T) {
	t.Parallel()
	n := start(t)
	for header, want := range map[int]string{8 << 10: "200 OK", 32 << 10: "431"} {
		roundTrip(t, dialRaw(t, n), "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("a",
			header)+"\r\n\r\n",
			want)
	}
}

func TestOddRequests(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.put([]byte("hello"))
	for send, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost:\r\n\r\n":                                                  "400",
		"GET / HTTP/1.1\r\n\r\n":                                                           "400",
		"GET / HTTP/1.0\r\n\r\n":                                                           "200",
		"GET /o/" + root.String() + " HTTP/1.0\r\n\r\n":                                    "200",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                            "200",
		"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n":                                          "405",
		"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n":                                 "200",
		"GET //healthz HTTP/1.1\r\nHost: x\r\n\r\n":                                        "200",
		"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                             "400",
		"GET /o/" + root.String() + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc": "413",
		// and never the body
		"GET /o/" + root.String() + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n": "413",
		"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n":                "405",
	} {
		roundTrip(t, dialRaw(t, n), send, want)
	}
}

// TestKeepAlive: one connection serves many requests, errors among them, and
// the deadline of one does not reach the next.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.StallTimeout = 2 * time.Second })
	root := n.objects.put([]byte("hello"))
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	c := dialRaw(t, n)
	for range 3 {
		roundTrip(t, c, "GET /o/"+root.String()+" HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK")
		roundTrip(t, c, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found")
		roundTrip(t, c, "HEAD /o/"+root.String()+" HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK")
	}
	passed := time.AfterFunc(5*time.Second, func() { close(gate) }) // two deadlines later
	defer passed.Stop()
	roundTrip(t, c, "GET /o/"+slow.String()+" HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK")
}

// TestReaderThatStandsStill is cut off; meanwhile it takes no place of requests
// that are being decided. The others have the same deadline, so it is a long one.
func TestReaderThatStandsStill(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) {
		c.StallTimeout, c.Inflight = 2*time.Second, 1
	})
	root := n.objects.put(make([]byte, 64<<20)) // more than the sockets buffer
	c := dialRaw(t, n)
	if _, err := io.WriteString(c, "GET /o/"+root.String()+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	small := n.objects.put([]byte("x"))
	testkit.Eventually(t, "an open object", func() bool {
		n.objects.mu.Lock()
		defer n.objects.mu.Unlock()
		return len(n.objects.opens) > 0
	})
	testkit.Eventually(t, "a free place", func() bool {
		return do(t, "GET", n.Addrs().Gateway+"/o/"+small.String()).StatusCode == http.StatusOK
	})
	testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.Copy(io.Discard, resp.Body); err == nil || got >= 64<<20 {
		t.Errorf("%d bytes, %v", got, err)
	}
}

// TestHTTP10Listing has a length: without chunks a cut could not be told from an
// end.
func TestHTTP10Listing(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, site)
	roundTrip(t, dialRaw(t, n), "GET /b3/"+root.String()+"/ HTTP/1.0\r\n\r\n", "200")
	roundTrip(t, dialRaw(t, n), "GET /b3/"+root.String()+"/readme.txt HTTP/1.0\r\n\r\n", "200")
}

func TestCorrelation(t *testing.T) {
	t.Parallel()
	n := start(t)
	for given, kept := range map[string]bool{
		"abc-DEF_1.2": true, "": false, "a b": false, strings.Repeat("x", 65): false, "é": false,
	} {
		a := do(t, "GET", n.Addrs().Gateway+"/o/"+b3.Sum([]byte("none")).String(), "X-Corr-ID", given)
		got := a.Header.Get("X-Corr-ID")
		if (got == given) != kept || got == "" {
			t.Errorf("%q became %q", given, got)
		}
		if p := a.problem(t, status.NotFound); p.Instance != "urn:allium:request:"+got {
			t.Errorf("instance %q", p.Instance)
		}
	}
}
