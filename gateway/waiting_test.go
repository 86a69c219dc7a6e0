package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// TestSlowOnesMakeRoom: clients that do not finish a header hold all places of
// the listener, and another gets in; the oldest of them pays.
func TestSlowOnesMakeRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) {
		c.Conns, c.HeaderTimeout, c.IdleTimeout = 3, time.Hour, time.Hour
	})
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	busy := dialRaw(t, n) // in a request, so it stays
	request := "GET /o/" + slow.String() + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(busy, request); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "one request in flight", func() bool { return n.InFlight() == 1 })
	var held []net.Conn
	for range 2 {
		c := dialRaw(t, n)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		before := len(held)
		testkit.Eventually(t, "one more connection", func() bool { return n.current("gateway.conns") == before+1 })
	}
	if b := healthOver(n); !strings.Contains(b, "200 OK") {
		t.Errorf("the next got %q", b)
	}
	if got := n.rejected("slow_evicted"); got != 1 {
		t.Errorf("%d made room", got)
	}
	if b, err := readAll(held[0]); b != "" || err != nil {
		t.Errorf("the oldest got %q, %v", b, err)
	}
	roundTrip(t, held[1], "y\r\n\r\n", "200")
	// It is idle now, and makes room too.
	testkit.Eventually(t, "two connections", func() bool { return n.current("gateway.conns") == 2 })
	c := dialRaw(t, n)
	roundTrip(t, c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "200")
	testkit.Eventually(t, "a connection gets its answer", func() bool {
		return strings.Contains(healthOver(n), "200 OK")
	})
	if got := n.rejected("idle_evicted"); got < 1 {
		t.Errorf("%d idle ones made room", got)
	}
	close(gate)
	if b, err := readAll(busy); err != nil || !strings.HasSuffix(b, "slow") {
		t.Errorf("the one in a request got %q, %v", b, err)
	}
}

// TestSmuggling: what could make two programs see two requests where there is
// one gets one answer, and the connection is closed.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.put([]byte("hello")).String()
	const next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	put := "PUT /o/" + b3.Sum([]byte("abc")).String() + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may-put,pin\r\n"
	for name, c := range map[string]struct{ send, want string }{
		"length and chunks": {"GET /o/" + root +
			" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next, "413"},
		"the same, with a body": {put + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n" +
			"abc\r\n0\r\n\r\n" + next, ""},
		"chunks alone": {put + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + next, ""},
		"two lengths": {"GET /o/" + root +
			" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + next, "400"},
		"a signed length":     {put + "Content-Length: +3\r\n\r\nabc" + next, "400"},
		"a bad chunk":         {put + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n" + next, ""},
		"a coding it has not": {put + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + next, "501"},
		"chunked twice": {put + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" +
			"\r\n0\r\n\r\n" + next, "501"},
		"a space before the colon": {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n" +
			next, "400"},
		"two hosts": {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + next,
			"400"},
		"a header that is folded into nothing": {"GET /o/" + root + " HTTP/1.1\r\n Host: x\r\n\r\n" + next, "400"},
		"a header too large": {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nX: " +
			strings.Repeat("a", 32<<10) + "\r\n\r\n" + next, "431"},
		"a line end in the path": {"GET /o/" + root + "\rX HTTP/1.1\r\nHost: x\r\n\r\n" + next, "400"},
	} {
		conn := dialRaw(t, n)
		if _, err := io.WriteString(conn, c.send); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", name)
		}
		line, _, _ := strings.Cut(got, "\r\n")
		if strings.Count(got, "HTTP/1.1 ") != 1 || !strings.HasPrefix(line, "HTTP/1.1 "+c.want) {
			t.Errorf("%s: %q in %d answers", name, line, strings.Count(got, "HTTP/1.1 "))
		}
	}
	// net/http reads these as RFC 9112 has it: a fold is a space (§5.2), and the
	// host is the one of an absolute target (§3.2.2).
	roundTrip(t, dialRaw(t, n), "GET /o/"+root+" HTTP/1.1\r\nHost: x\r\nX-Corr-ID: a\r\n b\r\n\r\n", "200")
	admin, err := net.Dial("tcp", strings.TrimPrefix(n.Addrs().Admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	roundTrip(t, admin, "GET http://evil.example/version HTTP/1.1\r\nHost: localhost\r\n\r\n", "403")
	if a := do(t, "GET", n.Addrs().Gateway+"/healthz"); a.StatusCode != http.StatusOK {
		t.Error(a.Status)
	}
}
