package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"allium/gateway/content"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// rawH2 is a client of HTTP/2 that does what no client should.
type rawH2 struct {
	t   *testing.T
	c   net.Conn
	f   *http2.Framer
	enc *hpack.Encoder
	buf bytes.Buffer
}

// dialH2 shakes hands in TLS and HTTP/2, with an endless window for the
// connection and 64 KiB for each stream.
func (a *authority) dialH2(t *testing.T, n *testNode) *rawH2 {
	t.Helper()
	c := a.dialTLS(t, n, "h2")
	if p := c.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Fatalf("speaks %q", p)
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	h := &rawH2{t: t, c: c, f: http2.NewFramer(c, c)}
	h.f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.enc = hpack.NewEncoder(&h.buf)
	h.must(h.f.WriteSettings())
	h.must(h.f.WriteWindowUpdate(0, 1<<30))
	return h
}

func (h *rawH2) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// header is the block of a GET.
func (h *rawH2) header(path string) []byte {
	h.buf.Reset()
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {
			Name: ":authority", Value: "node.test",
		}, {Name: ":path", Value: path},
	} {
		_ = h.enc.WriteField(f) // to a buffer
	}
	return h.buf.Bytes()
}

func (h *rawH2) Get(stream uint32, path string) error {
	return h.f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: h.header(path), EndHeaders: true, EndStream: true,
	})
}

// heard is what a stream, or for 0 the connection, has said.
type heard struct {
	status string
	body   []byte
	ended  bool // whole
	reset  http2.ErrCode
	wasCut bool
	goAway bool
}

// until reads frames until what was heard satisfies a condition.
func (h *rawH2) until(all map[uint32]*heard, cond func(map[uint32]*heard) bool) {
	h.t.Helper()
	for !cond(all) {
		f, err := h.f.ReadFrame()
		if err != nil {
			h.t.Fatalf("%v, after %+v", err, all)
		}
		s := all[f.Header().StreamID]
		if s == nil {
			s = &heard{}
			all[f.Header().StreamID] = s
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				h.must(h.f.WriteSettingsAck())
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				h.must(h.f.WritePing(true, f.Data))
			}
		case *http2.MetaHeadersFrame:
			s.status, s.ended = f.PseudoValue("status"), f.StreamEnded()
		case *http2.DataFrame:
			s.body, s.ended = append(s.body, f.Data()...), f.StreamEnded()
		case *http2.RSTStreamFrame:
			s.reset, s.wasCut = f.ErrCode, true
		case *http2.GoAwayFrame:
			s.reset, s.goAway = f.ErrCode, true
		}
	}
}

// TestH2Cut: an answer that fails late never ends as a whole one does.
func TestH2Cut(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	data := bytes.Repeat([]byte("abcdefgh"), 3*b3.GroupSize/8)
	root := n.objects.add(&fakeObject{data: data, failAt: 3000, err: status.Errorf(status.Corrupt, "damaged")})
	h := a.dialH2(t, n)
	h.must(h.Get(1, "/o/"+root.String()))
	all := map[uint32]*heard{1: {}}
	h.until(all, func(m map[uint32]*heard) bool { return m[1].wasCut || m[1].ended })
	if s := all[1]; s.ended || s.reset != http2.ErrCodeInternal || s.status != "" && !bytes.HasPrefix(data, s.body) {
		t.Errorf("%s, %d bytes, ended %t, reset %v", s.status, len(s.body), s.ended, s.reset)
	}
	// The connection goes on.
	h.must(h.Get(3, "/healthz"))
	h.until(all, func(m map[uint32]*heard) bool { return m[3] != nil && m[3].ended })

	// A listing has no length: its end alone says that it is whole.
	files := map[string]string{}
	for i := range 9000 {
		files[strings.Repeat("y", 60)+string(rune('a'+i%26))+time.Unix(int64(i), 0).UTC().Format("150405")] = "same"
	}
	tree := n.objects.tree(t, files)
	n.objects.mu.Lock()
	for r, o := range n.objects.m {
		if r != tree && len(o.data) > 1000 && r != root && bytes.Contains(o.data, []byte("yz02")) {
			o.err = status.Errorf(status.Corrupt, "damaged")
		}
	}
	n.objects.mu.Unlock()
	got := fetch(t, a.https(t, n, true), "GET", n.Addrs().Gateway+"/b3/"+tree.String()+"/?format=json")
	if got.StatusCode != http.StatusOK || got.err == nil || errors.Is(got.err, io.EOF) {
		t.Errorf("listing: %s, %d bytes, %v", got.Status, len(got.body), got.err)
	}
}

// TestH2StreamThatStandsStill is cut after its deadline; the streams beside it,
// which have the same, go on.
func TestH2StreamThatStandsStill(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) {
		c.StallTimeout = 2 * time.Second
	}))
	big, small := n.objects.put(make([]byte, 1<<20)), n.objects.put([]byte("small"))
	h := a.dialH2(t, n)
	h.must(h.Get(1, "/o/"+big.String())) // and never a WINDOW_UPDATE of it
	all := map[uint32]*heard{1: {}}
	h.until(all, func(m map[uint32]*heard) bool { return len(m[1].body) > 60<<10 })
	h.must(h.Get(3, "/o/"+small.String()))
	h.until(all, func(m map[uint32]*heard) bool { return m[1].wasCut && m[3] != nil && m[3].ended })
	if all[1].ended || len(all[1].body) > 64<<10 || string(all[3].body) != "small" {
		t.Errorf("the slow one: ended %t with %d bytes; the other: %q", all[1].ended, len(all[1].body), all[3].body)
	}
	testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
	h.must(h.Get(5, "/o/"+small.String()))
	h.until(all, func(m map[uint32]*heard) bool { return m[5] != nil && m[5].ended })
}

// TestH2Drain: who asks during the drain is refused and told to go, what is in
// flight finishes.
func TestH2Drain(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := startWith(t, hooks{params: patiently}, a.withTLS(t))
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	h := a.dialH2(t, n)
	h.must(h.Get(1, "/o/"+slow.String()))
	testkit.Eventually(t, "one request in flight", func() bool { return n.InFlight() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	testkit.Eventually(t, "the drain begins", n.Draining)
	h.must(h.Get(3, "/o/"+slow.String()))
	all := map[uint32]*heard{1: {}}
	h.until(all, func(m map[uint32]*heard) bool { return m[0] != nil && m[0].goAway && m[3] != nil && m[3].ended })
	if all[3].status != "503" || all[0].reset != http2.ErrCodeNo {
		t.Errorf("%s, %v", all[3].status, all[0].reset)
	}
	close(gate)
	h.until(all, func(m map[uint32]*heard) bool { return m[1].ended || m[1].wasCut })
	if !all[1].ended || string(all[1].body) != "slow" {
		t.Errorf("in flight: %+v", all[1])
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// stuckObjects opens nothing before it is told to, whoever has gone away.
type stuckObjects struct {
	release chan struct{}
	mu      sync.Mutex
	in      int
	most    int
}

// Memory implements Objects.
func (*stuckObjects) Memory(b3.Root) []byte { return nil }

// Cached implements Objects.
func (*stuckObjects) Cached(b3.Root) bool { return false }

func (s *stuckObjects) Open(context.Context, b3.Root, content.OpenOptions) (content.Content, error) {
	s.mu.Lock()
	s.in++
	s.most = max(s.most, s.in)
	s.mu.Unlock()
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in--
	return nil, status.Errorf(status.NotFound, "none")
}

// TestH2RapidReset: a client that opens streams and resets them at once never
// has more than 100 requests running, and is sent away (CVE-2023-44487).
func TestH2RapidReset(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	stuck := &stuckObjects{release: make(chan struct{})}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Objects = stuck }}, a.withTLS(t))
	t.Cleanup(func() { close(stuck.release) })
	h := a.dialH2(t, n)
	path, sent := "/o/"+b3.Sum(nil).String(), 0
	sentAway := func() bool {
		return n.counter("http2_errors_total", "conn_ENHANCE_YOUR_CALM_too_many_early_resets") == 1
	}
	var err error
	for id := uint32(1); err == nil && sent < 20_000 && (sent%32 != 0 || !sentAway()); id += 2 {
		if err = h.Get(id, path); err == nil {
			err = h.f.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		sent++
	}
	testkit.Eventually(t, "the client is sent away", sentAway)
	_, err = io.Copy(io.Discard, h.c) // the end is the server's; a reset is one too
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error(err)
	}
	stuck.mu.Lock()
	most := stuck.most
	stuck.mu.Unlock()
	if most == 0 || most > 100 {
		t.Errorf("%d requests ran at once", most)
	}
	t.Logf("sent away after %d streams; %d ran at once", sent, most)
	if got := fetch(t, a.https(t, n, true), "GET", n.Addrs().Gateway+"/healthz"); got.body != "ok\n" {
		t.Errorf("others: %s", got.Status)
	}
}

// TestH2EndlessHeader: a header in pieces without end is cut near the cap
// (CVE-2023-45288).
func TestH2EndlessHeader(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	h := a.dialH2(t, n)
	h.must(h.f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h.header("/healthz"), EndStream: true}))
	h.buf.Reset()
	for i := 0; h.buf.Len() < 8<<10; i++ {
		_ = h.enc.WriteField(hpack.HeaderField{Name: "x-more", Value: strings.Repeat("a", 200), Sensitive: true})
	}
	var err error
	sent := 0
	for err == nil && sent < 64<<20 {
		err = h.f.WriteContinuation(1, false, h.buf.Bytes())
		sent += h.buf.Len()
	}
	if err == nil {
		t.Error("64 MiB of header were taken")
	}
	t.Logf("cut after %d KiB were written", sent>>10)
}

// TestH2CountsStreams: the gate of requests in flight counts streams, not
// connections.
func TestH2CountsStreams(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) { c.Inflight = 2 }))
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	h := a.dialH2(t, n)
	h.must(h.Get(1, "/o/"+slow.String()))
	h.must(h.Get(3, "/o/"+slow.String()))
	testkit.Eventually(t, "two requests in flight", func() bool { return n.InFlight() == 2 })
	h.must(h.Get(5, "/o/"+slow.String()))
	all := map[uint32]*heard{}
	h.until(all, func(m map[uint32]*heard) bool { return m[5] != nil && m[5].ended })
	close(gate)
	h.until(all, func(m map[uint32]*heard) bool { return m[1] != nil && m[1].ended && m[3] != nil && m[3].ended })
	if all[5].status != "429" || all[1].status != "200" || all[3].status != "200" {
		t.Errorf("%s %s %s", all[1].status, all[3].status, all[5].status)
	}
}

// TestH2C: without TLS HTTP/2 is spoken where it is configured alone.
func TestH2C(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		n := start(t, func(c *Config, _ *server.AdminConfig) { c.H2C = on })
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		resp, err := tr.RoundTrip(httpRequest(t, n.Addrs().Gateway+"/healthz"))
		if (err == nil) != on {
			t.Errorf("h2c %t: %v", on, err)
		}
		if err == nil {
			resp.Body.Close()
			if resp.ProtoMajor != 2 || resp.Header.Get("Strict-Transport-Security") != "" {
				t.Errorf("%s %v", resp.Proto, resp.Header)
			}
		}
		tr.CloseIdleConnections()
		if a := do(t, "GET", n.Addrs().Gateway+"/healthz"); a.ProtoMajor != 1 || a.body != "ok\n" {
			t.Errorf("HTTP/1 beside it: %s %s", a.Proto, a.Status)
		}
	}
}
