package gateway

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/api/client"
	"allium/gateway/server"
)

// TestAdminHostTable: who a browser was told to ask, in every way that a Host
// can be written. Behind a name that is not ours may be a page that points it at
// this machine (DNS rebinding).
func TestAdminHostTable(t *testing.T) {
	t.Parallel()
	n4 := start(t)
	listeners := map[string]*testNode{"127.0.0.1": n4}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		l.Close()
		listeners["[::1]"] = start(t, func(_ *Config, a *server.AdminConfig) { a.Listen = "[::1]:0" })
	}
	for own, n := range listeners {
		addr := strings.TrimPrefix(n.Addrs().Admin, "http://")
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		get := func(target, host string) string { return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
		other := map[string]string{"127.0.0.1": "[::1]", "[::1]": "127.0.0.1"}[own]
		for _, c := range []struct {
			raw  string
			code int
		}{
			{get("/version", own), 200},
			{get("/version", own+":"+port), 200},
			{get("/version", own+":1"), 200},
			{get("/version", "localhost"), 200},
			{get("/version", "LOCALHOST:"+port), 200},
			{get("http://localhost/version", "localhost"), 200},
			{"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n", 200},

			{get("/version", other), 403},
			{get("/version", other+":"+port), 403},
			{get("/version", "localhost."), 403},
			{get("/version", own+"."), 403},
			{get("/version", own+".evil.example"), 403},
			{get("/version", "localhost.evil.example:"+port), 403},
			{get("/version", "evil.example"), 403},
			{get("/version", "0.0.0.0:"+port), 403},
			{get("/version", "[::]:"+port), 403},
			{get("/version", "127.1"), 403},
			{get("/version", "2130706433"), 403},
			{get("/version", "[::ffff:127.0.0.1]"), 403},
			{get("/version", "0x7f.1"), 403},
			{get("/version", "[0:0:0:0:0:0:0:1]"), 403},
			{get("/version", "localhost,evil.example"), 403},
			{get("/version", "localhost%00.evil.example"), 403},
			{get("/version", "evil.example@localhost"), 400}, // net/http
			{get("/version", ":"+port), 403},
			{get("/version", ""), 403},
			{get("http://evil.example/version", "localhost"), 403}, // RFC 9112 §3.2.2: the target's host counts
			{get("http://localhost@evil.example/version", "localhost"), 403},
			{"GET /version HTTP/1.0\r\n\r\n", 403},
			{get("/healthz", "evil.example"), 403},
			{get("/metrics", "evil.example"), 403},
			{get("/openapi.json", "evil.example"), 403},
			{"OPTIONS /version HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
			{
				"POST /api/v1/drain HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer " +
					"may-drain\r\nContent-Length: 0\r\n\r\n",
				403,
			},
			{"GET /version HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400},
			{"GET /version HTTP/1.1\r\n\r\n", 400},
		} {
			method, _, _ := strings.Cut(c.raw, " ")
			if g := send(t, addr, method, c.raw); g.code != c.code {
				t.Errorf("%s: %q: %d %q, want %d", own, c.raw, g.code, g.body, c.code)
			}
		}
		if calls := n.node.calls(); len(calls) != 0 {
			t.Errorf("%s: the node was asked %q", own, calls)
		}
	}
	// On the socket the kernel says who asks, so any Host will do.
	c, err := client.New(n4.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ID(t.Context()); err != nil {
		t.Error(err)
	}
	if a := do(t, "GET", n4.Addrs().Gateway+"/healthz", "Host", "evil.example"); a.StatusCode != http.StatusOK {
		t.Errorf("the public listener has no names of its own: %s", a.Status)
	}
}
