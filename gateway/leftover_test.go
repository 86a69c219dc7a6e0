package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/protocols/status"
)

// TestAddLeavesRest: what a client still owes of its body after the answer holds
// no connection, and is no request.
func TestAddLeavesRest(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.node.add.set(func(_ context.Context, tar io.Reader, _ api.AddOptions, _ api.ProgressFunc) iter.Seq2[api.Added,
		error] {
		return func(yield func(api.Added, error) bool) {
			if _, err := io.ReadFull(tar, make([]byte, 1)); err != nil {
				yield(api.Added{}, err)
			}
		}
	})
	host := strings.TrimPrefix(n.Addrs().Admin, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "POST /api/v1/add HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer "+
		"may-put,pin\r\nContent-Length: 1000\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	said, err := readAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open for the rest of a body")
	}
	if !strings.HasPrefix(said, "HTTP/1.1 200") || !strings.Contains(said, `"ok"`) ||
		!strings.Contains(said, "Connection: close") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestRefusalIsRead: a client that closes after this request, and sends all of it
// before it reads, is told why it was refused. net/http would reset the
// connection under it.
func TestRefusalIsRead(t *testing.T) {
	t.Parallel()
	const length = 8 << 20 // more than the sockets hold
	n := start(t)
	for _, head := range []string{"HTTP/1.1\r\nConnection: close", "HTTP/1.0"} {
		c := dialRaw(t, n)
		send := fmt.Sprintf("POST /o %s\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", head, length) +
			strings.Repeat("x", length)
		if _, err := io.WriteString(c, send); err != nil {
			t.Errorf("%s: it could not send the rest: %v", head, err)
		}
		if said, err := readAll(c); err != nil || !strings.HasPrefix(said, head[:len("HTTP/1.x")]+" 401") {
			t.Errorf("%s: %v: %.200s", head, err, said)
		}
	}
}

// TestDocumentIsRated: the longest page of a listener is none of those that wait
// for nothing.
func TestDocumentIsRated(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Rate, c.Burst, c.RateWait = 1, 1, 0 })
	page := n.Addrs().Gateway + "/openapi.json"
	for range 1000 { // until a second has more than one of them
		if a := do(t, "GET", page); a.StatusCode == http.StatusTooManyRequests {
			a.problem(t, status.RateLimit)
			return
		}
	}
	t.Error("it is sent at any rate")
}
