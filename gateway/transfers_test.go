package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// clientFrom is a client with an address of its own on loopback.
func clientFrom(t testing.TB, n *testNode, host byte) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
			return d.DialContext(ctx, "tcp", address(t, n.Addrs().Gateway))
		}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// slowReader asks from an address for an object, and reads nothing of it.
func slowReader(t testing.TB, n *testNode, host byte, root b3.Root) *net.TCPConn {
	t.Helper()
	return slowReaderOf(t, n, host, "/o/"+root.String()+" HTTP/1.1")
}

// slowReaderOf is slowReader for another path, in a version of HTTP.
func slowReaderOf(t testing.TB, n *testNode, host byte, path string) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	c, err := d.DialContext(t.Context(), "tcp", address(t, n.Addrs().Gateway))
	if err != nil {
		t.Skipf("this system has no other address on loopback: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	tcp := c.(*net.TCPConn)
	if _, err := io.WriteString(c, "GET "+path+"\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return tcp
}

// open is how many of the connections are open: the other end of one that made
// room has reset it.
func open(conns []*net.TCPConn) (n int) {
	for _, c := range conns {
		if _, err := c.Write([]byte("\n")); err == nil {
			n++
		}
	}
	return n
}

// TestTransfersMakeRoom: a new client finds a place where all are taken, and the
// client that has most pays for it.
func TestTransfersMakeRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Inflight, c.InflightPerIP, c.Transfers = 2, 1, 6 })
	big := n.objects.put(make([]byte, 64<<20))
	readers, all := map[byte][]*net.TCPConn{}, 0
	read := func(host byte) {
		readers[host] = append(readers[host], slowReader(t, n, host, big))
	}
	for host, places := range []int{2: 4, 3: 2} {
		for range places {
			read(byte(host))
			all++
			testkit.Eventually(t, "one more transfer", func() bool { return n.current("gateway.transfers") == all })
		}
	}
	read(4)
	testkit.Eventually(t, "a transfer is evicted", func() bool {
		return n.rejected("transfer_evicted") == 1 && open(readers[2]) == 3
	})
	// Who has most is the one to pay, also for itself.
	read(2)
	testkit.Eventually(t, "another transfer is evicted", func() bool {
		return n.rejected("transfer_evicted") == 2 && open(readers[2]) == 3
	})
	testkit.Eventually(t, "six transfers", func() bool {
		return n.current("gateway.transfers") == 6 && n.InFlight() == 6
	})
	if b, c := open(readers[3]), open(readers[4]); b != 2 || c != 1 {
		t.Errorf("%d and %d are left of the others", b, c)
	}
}

// wideTree is a directory whose listing is longer than what the system buffers.
func wideTree(t testing.TB, n *testNode) (path string, small b3.Root) {
	t.Helper()
	many := map[string]string{}
	for i := range 4000 {
		many[fmt.Sprintf("%s%d", strings.Repeat("y", 100), i)] = "same"
	}
	return "/b3/" + n.objects.tree(t, many).String() + "/", n.objects.put([]byte("small"))
}

// TestListingsMakeRoom: listings hold memory for their clients, so fewer of them
// are under way than of other answers, and each makes room as those do.
func TestListingsMakeRoom(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{params: func(p *server.Params) { p.Listings = 2 }})
	dir, _ := wideTree(t, n)
	var greedy []*net.TCPConn
	for i, page := range []string{"?format=html HTTP/1.1", "?format=json HTTP/1.0"} {
		greedy = append(greedy, slowReaderOf(t, n, 2, dir+page))
		testkit.Eventually(t, "one more listing", func() bool { return n.current("gateway.listings") == i+1 })
	}
	shy := slowReaderOf(t, n, 3, dir+"?format=html HTTP/1.1")
	testkit.Eventually(t, "a listing is evicted", func() bool {
		return n.rejected("transfer_evicted") == 1 && open(greedy) == 1
	})
	testkit.Eventually(t, "two listings", func() bool {
		return n.current("gateway.listings") == 2 && n.InFlight() == 2
	})
	if open([]*net.TCPConn{shy}) != 1 {
		t.Error("who has one listing made room")
	}
}

// TestConnectionsInListingsMakeRoom: as those in other transfers do.
func TestConnectionsInListingsMakeRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Conns = 2 })
	dir, small := wideTree(t, n)
	for i := range 2 {
		slowReaderOf(t, n, 2, dir+"?format=html HTTP/1.1")
		testkit.Eventually(t, "one more listing", func() bool { return n.current("gateway.listings") == i+1 })
	}
	resp, err := clientFrom(t, n, 3).Get(n.Addrs().Gateway + "/o/" + small.String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// TestSlowestMakesRoom: of one client's transfers the one that gets least is
// cut, with a reset, and the others go on.
func TestSlowestMakesRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Transfers = 3 })
	big := n.objects.put(make([]byte, 64<<20))
	var readers []*net.TCPConn
	for i := range 3 {
		readers = append(readers, slowReader(t, n, 2, big))
		testkit.Eventually(t, "one more transfer", func() bool { return n.current("gateway.transfers") == i+1 })
	}
	for i, r := range readers { // all but the second read some megabytes
		if i != 1 {
			if _, err := io.CopyN(io.Discard, r, 8<<20); err != nil {
				t.Fatal(err)
			}
		}
	}
	slowReader(t, n, 3, big)
	testkit.Eventually(t, "a transfer is evicted", func() bool { return n.rejected("transfer_evicted") == 1 })
	if _, err := io.Copy(io.Discard, readers[1]); err == nil {
		t.Error("the slowest was not cut")
	}
	for _, i := range []int{0, 2} {
		if _, err := io.CopyN(io.Discard, readers[i], 8<<20); err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
	}
}

// TestFetchedTransfersMakeRoom: slow readers of content that comes from peers do not keep another client
// from the network, and a client with as few of them as the other keeps its own.
func TestFetchedTransfersMakeRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) {
		c.Content.Fetches, c.Content.FetchesPerIP, c.Content.FirstByteTimeout = 3, 2, 5*time.Second
	})
	big := n.objects.add(&fakeObject{data: make([]byte, 64<<20), remote: true})
	small := n.objects.add(&fakeObject{data: []byte("small"), remote: true})
	var greedy []*net.TCPConn
	for i := range 2 {
		greedy = append(greedy, slowReader(t, n, 2, big))
		testkit.Eventually(t, "one more transfer", func() bool { return n.current("gateway.transfers") == i+1 })
	}
	shy := slowReader(t, n, 3, big)
	testkit.Eventually(t, "three transfers", func() bool { return n.current("gateway.transfers") == 3 })
	resp, err := clientFrom(t, n, 4).Get(n.Addrs().Gateway + "/o/" + small.String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || n.rejected("transfer_evicted") != 1 {
		t.Errorf("%s, %d made room", resp.Status, n.rejected("transfer_evicted"))
	}
	if a, b := open(greedy), open([]*net.TCPConn{shy}); a != 1 || b != 1 {
		t.Errorf("%d and %d are left", a, b)
	}
}

// TestConnectionsInTransfersMakeRoom: where every connection is in a request, one
// of a client that has many is closed for a client that has few.
func TestConnectionsInTransfersMakeRoom(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Conns = 4 })
	big, small := n.objects.put(make([]byte, 64<<20)), n.objects.put([]byte("small"))
	for i := range 4 {
		slowReader(t, n, 2, big)
		testkit.Eventually(t, "one more transfer", func() bool { return n.current("gateway.transfers") == i+1 })
	}
	resp, err := clientFrom(t, n, 3).Get(n.Addrs().Gateway + "/o/" + small.String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	testkit.Eventually(t, "three transfers", func() bool { return n.current("gateway.transfers") == 3 })
	if resp.StatusCode != http.StatusOK || n.rejected("transfer_evicted") != 1 {
		t.Errorf("%s, %d made room", resp.Status, n.rejected("transfer_evicted"))
	}
}

// TestH2TransferMakesRoom: of an HTTP/2 connection one stream is reset where the
// client takes the others.
func TestH2TransferMakesRoom(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) { c.Transfers = 2 }))
	big, small := n.objects.put(make([]byte, 1<<20)), n.objects.put([]byte("small"))
	h := a.dialH2(t, n)
	all := map[uint32]*heard{1: {}, 3: {}, 5: {}}
	for _, s := range []uint32{1, 3, 5} { // 64 KiB of each fit its window
		h.must(h.Get(s, "/o/"+big.String()))
		h.until(all, func(m map[uint32]*heard) bool { return len(m[s].body) > 60<<10 })
	}
	h.until(all, func(m map[uint32]*heard) bool { return m[1].wasCut || m[3].wasCut })
	h.must(h.Get(7, "/o/"+small.String()))
	h.until(all, func(m map[uint32]*heard) bool { return m[7] != nil && m[7].ended })
	if all[1].wasCut == all[3].wasCut || all[5].wasCut {
		t.Errorf("cut: %t, %t, %t", all[1].wasCut, all[3].wasCut, all[5].wasCut)
	}
	if got := n.current("gateway.transfers"); got != 2 {
		t.Errorf("%d transfers", got)
	}
}

// TestH2MakesRoomBeforeReading: bytes that the client has not acknowledged yet
// are no reason to cut more than one stream.
func TestH2MakesRoomBeforeReading(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) { c.Transfers = 2 }))
	big := n.objects.put(make([]byte, 1<<20))
	h := a.dialH2(t, n)
	h.must(h.c.(*tls.Conn).NetConn().(*net.TCPConn).SetReadBuffer(16 << 10))
	for i, s := range []uint32{1, 3} {
		h.must(h.Get(s, "/o/"+big.String()))
		testkit.Eventually(t, "one more transfer", func() bool { return n.current("gateway.transfers") == i+1 })
	}
	h.must(h.Get(5, "/o/"+big.String()))
	testkit.Eventually(t, "a transfer is evicted", func() bool { return n.rejected("transfer_evicted") == 1 })
	all := map[uint32]*heard{1: {}, 3: {}, 5: {}}
	h.until(all, func(m map[uint32]*heard) bool {
		return (m[1].wasCut || m[3].wasCut) && len(m[5].body) > 60<<10
	})
	if all[1].wasCut == all[3].wasCut || all[5].wasCut {
		t.Errorf("cut: %t, %t, %t", all[1].wasCut, all[3].wasCut, all[5].wasCut)
	}
}

// TestH2TakesNoReset: a connection that takes nothing, the reset of its stream
// included, is closed, and not only when it is too slow.
func TestH2TakesNoReset(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) {
		c.Transfers = 1
	}))
	big := n.objects.put(make([]byte, 64<<20))
	h := a.dialH2(t, n)
	h.must(h.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	h.must(h.Get(1, "/o/"+big.String()))
	testkit.Eventually(t, "one transfer", func() bool { return n.current("gateway.transfers") == 1 })
	page := n.objects.put(make([]byte, 60<<10))
	another := a.dialH2(t, n)
	another.must(another.Get(1, "/o/"+page.String()))
	another.until(map[uint32]*heard{1: {}}, func(m map[uint32]*heard) bool { return m[1].ended })
	if got := n.rejected("transfer_evicted"); got != 1 {
		t.Errorf("%d made room", got)
	}
	testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
}

// TestBesideSlowReaders: five addresses with 550 slow readers, at the limits of a
// node, leave a sixth what it asks for. It reports how long that takes.
func TestBesideSlowReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Rate = 5000 })
	big, page := n.objects.put(make([]byte, 64<<20)), n.objects.put(make([]byte, 4<<10))
	const hosts, each, requests = 5, 110, 500
	for i := range hosts * each {
		slowReader(t, n, byte(2+i%hosts), big)
	}
	testkit.Eventually(t, "all transfers", func() bool { return n.current("gateway.transfers") == hosts*each })
	client := clientFrom(t, n, 100)
	took, failed := make([]time.Duration, 0, requests), ""
	for range requests {
		begun := time.Now()
		resp, err := client.Get(n.Addrs().Gateway + "/o/" + page.String())
		if err != nil {
			failed = err.Error()
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			failed = fmt.Sprint(resp.Status, err)
			continue
		}
		took = append(took, time.Since(begun))
	}
	if len(took) < requests*99/100 {
		t.Errorf("%d of %d requests were answered; one was not: %s", len(took), requests, failed)
	}
	slices.Sort(took)
	t.Logf("%d of %d; p50 %s, p99 %s", len(took), requests, took[len(took)/2], took[len(took)*99/100])
}
