package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/b3"
)

// TestSlowOnesMakeRoom: clients that do not finish a header hold all places of
// the listener, and another gets in; the oldest of them pays.
func TestSlowOnesMakeRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *AdminConfig) { c.Conns, c.HeaderTimeout, c.IdleTimeout = 3, time.Hour, time.Hour })
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	busy := dialRaw(t, n) // in a request, so it stays
	if _, err := io.WriteString(busy, "GET /o/"+slow.String()+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return n.flight.Inside() == 1 })
	var held []net.Conn
	for range 2 {
		c := dialRaw(t, n)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		before := len(held)
		waitFor(t, func() bool { return connsOf(n) == before+1 })
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
	waitFor(t, func() bool { return connsOf(n) == 2 })
	c := dialRaw(t, n)
	roundTrip(t, c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "200")
	waitFor(t, func() bool { return strings.Contains(healthOver(n), "200 OK") })
	if got := n.rejected("idle_evicted"); got < 1 {
		t.Errorf("%d idle ones made room", got)
	}
	close(gate)
	if b, err := readAll(busy); err != nil || !strings.HasSuffix(b, "slow") {
		t.Errorf("the one in a request got %q, %v", b, err)
	}
}

// connsOf is how many connections the public listener has.
func connsOf(n *testNode) int {
	for _, l := range n.deps.Limits.Snapshot() {
		if l.Name == "gateway.conns" {
			return int(l.Current)
		}
	}
	return -1
}

// TestWaiting compares the order with a plain model.
func TestWaiting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWaiting()
		var fresh, idle []*conn // the oldest first
		running := map[*conn]int{}
		without := func(l []*conn, c *conn) []*conn {
			for i, o := range l {
				if o == c {
					return append(l[:i:i], l[i+1:]...)
				}
			}
			return l
		}
		waits := func() *conn {
			all := append(append([]*conn{}, fresh...), idle...)
			if len(all) == 0 {
				return nil
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
		}
		var busy []*conn
		t.Repeat(map[string]func(*rapid.T){
			"accept": func(*rapid.T) {
				c := &conn{Of: w}
				w.add(c)
				fresh = append(fresh, c)
			},
			"begin": func(*rapid.T) {
				if c := waits(); c != nil {
					if !c.begin() {
						t.Fatal("it is not gone")
					}
					fresh, idle = without(fresh, c), without(idle, c)
					running[c]++
					busy = append(busy, c)
				}
			},
			"another stream": func(*rapid.T) {
				if len(busy) > 0 {
					busy[0].begin()
					running[busy[0]]++
				}
			},
			"end": func(*rapid.T) {
				if len(busy) > 0 {
					c := busy[0]
					c.end()
					if running[c]--; running[c] == 0 {
						delete(running, c)
						busy = busy[1:]
						idle = append(idle, c)
					}
				}
			},
			"close": func(*rapid.T) {
				if c := waits(); c != nil {
					w.drop(c)
					fresh, idle = without(fresh, c), without(idle, c)
				}
			},
			"evict": func(*rapid.T) {
				c, reason := w.choose(netip.Prefix{})
				switch {
				case len(fresh) > 0:
					if c != fresh[0] || reason != "slow_evicted" {
						t.Fatal("not the oldest without a header")
					}
					fresh = fresh[1:]
				case len(idle) > 0:
					if c != idle[0] || reason != "idle_evicted" {
						t.Fatal("not the one that is idle longest")
					}
					idle = idle[1:]
				case c != nil:
					t.Fatal("one in a request made room")
				}
				if c != nil && c.begin() {
					t.Fatal("who made room begins a request")
				}
			},
		})
	})
}

// TestWhoHasMostMakesRoom: a client with one connection takes the place of one
// with many, and one with many takes nobody's but its own.
func TestWhoHasMostMakesRoom(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	client := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32) }
	add := func(i int) *conn {
		c := &conn{Of: w, group: client(i)}
		w.add(c)
		return c
	}
	shy := add(1)
	greedy := []*conn{add(2), add(2), add(2)}
	if c, _ := w.choose(client(2)); c != greedy[0] {
		t.Error("who has most did not take its own oldest")
	}
	if c, _ := w.choose(client(3)); c != greedy[1] {
		t.Error("a newcomer did not take the place of who has most")
	}
	if c, _ := w.choose(client(3)); c != nil {
		t.Error("it took the last of somebody")
	}
	if !shy.begin() {
		t.Error("who has one made room")
	}
	shy.end()
	w.drop(shy)
	w.drop(greedy[2])
	w.drop(greedy[0]) // as its connection is closed
	if len(w.each) != 0 {
		t.Errorf("%v are left", w.each)
	}
}

// TestFewAreLeaving: connections that were told to make room and are not closed
// yet are bounded, and half of the bound is for clients with few connections;
// beyond it nobody makes room, until one of them is closed.
func TestFewAreLeaving(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	greedy := netip.MustParsePrefix("192.0.2.1/32")
	shy := netip.MustParsePrefix("192.0.2.2/32")
	for range 2 * maxLeaving {
		w.add(&conn{Of: w, group: greedy})
	}
	var left []*conn
	leave := func(client netip.Prefix) (n int) {
		for c, _ := w.choose(client); c != nil; c, _ = w.choose(client) {
			left = append(left, c)
			n++
		}
		return n
	}
	if n := leave(greedy); n != maxLeaving/2 {
		t.Errorf("%d are leaving for who has most, want half of %d", n, maxLeaving)
	}
	if n := leave(shy); n != maxLeaving/2 {
		t.Errorf("%d are leaving for who has none, want the other half of %d", n, maxLeaving)
	}
	w.drop(left[0])
	w.drop(left[0]) // as net/http closes twice
	if n := leave(greedy); n != 0 {
		t.Errorf("%d are leaving for who has most while less than half is free", n)
	}
	if n := leave(shy); n != 1 {
		t.Errorf("%d are leaving after one was closed", n)
	}
}

// TestAcceptLeavesClosingToTheReader: what makes room for the next is closed by
// whoever reads it; until then it is counted, and Accept does not wait.
func TestAcceptLeavesClosingToTheReader(t *testing.T) {
	t.Parallel()
	n := start(t)
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	l := n.limitPublic(raw, n.deps.Limits.NewGate(limits.Spec{Name: "test.conns"}, 1, 0), nil)
	accept := func() *conn {
		peer, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peer.Close() })
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*conn)
	}
	leaving := func() int {
		l.waiting.mu.Lock()
		defer l.waiting.mu.Unlock()
		return l.waiting.leaving
	}
	first := accept()
	accept()
	if got := leaving(); got != 1 {
		t.Errorf("%d are leaving, want the first", got)
	}
	if k, err := first.Read(make([]byte, 1)); k != 0 || !errors.Is(err, errMadeRoom) {
		t.Errorf("the reader got %d bytes, %v", k, err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("the reader cannot close it: %v", err)
	}
	if got := leaving(); got != 0 {
		t.Errorf("%d are leaving, want none", got)
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
		"length and chunks":                    {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next, "413"},
		"the same, with a body":                {put + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + next, ""},
		"chunks alone":                         {put + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + next, ""},
		"two lengths":                          {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + next, "400"},
		"a signed length":                      {put + "Content-Length: +3\r\n\r\nabc" + next, "400"},
		"a bad chunk":                          {put + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n" + next, ""},
		"a coding it has not":                  {put + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + next, "501"},
		"chunked twice":                        {put + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next, "501"},
		"a space before the colon":             {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n" + next, "400"},
		"two hosts":                            {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + next, "400"},
		"a header that is folded into nothing": {"GET /o/" + root + " HTTP/1.1\r\n Host: x\r\n\r\n" + next, "400"},
		"a header too large":                   {"GET /o/" + root + " HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 32<<10) + "\r\n\r\n" + next, "431"},
		"a line end in the path":               {"GET /o/" + root + "\rX HTTP/1.1\r\nHost: x\r\n\r\n" + next, "400"},
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
