package origin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are limits with which a test does not wait for long.
func quick() Params {
	p := DefaultParams()
	p.Backoff, p.MaxBackoff = time.Millisecond, 4*time.Millisecond
	p.BreakerMinCalls = 1000
	return p
}

// rig is an https origin on loopback and a client of it.
type rig struct {
	*Client
	server  *httptest.Server
	port    string
	asked   atomic.Int64
	retried atomic.Int64
	late    atomic.Int64
}

// newRig starts an origin. edit, which may be nil, changes the client that is made for it.
func newRig(t *testing.T, serve http.HandlerFunc, edit func(*Config, *Deps)) *rig {
	t.Helper()
	r := &rig{}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		serve(w, q)
	}))
	r.server.EnableHTTP2 = true
	r.server.Config.ErrorLog = nil
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	u, err := url.Parse(r.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.port = u.Port()
	roots := x509.NewCertPool()
	roots.AddCert(r.server.Certificate())
	cfg := Config{Source: "maps", URLs: []string{r.server.URL + "/base/"}, Private: true, Roots: roots,
		MaxBytes: 1 << 20, UserAgent: "allium/v1", Params: quick()}
	deps := Deps{Retried: func() { r.retried.Add(1) }, TimedOut: func() { r.late.Add(1) }}
	if edit != nil {
		edit(&cfg, &deps)
	}
	if r.Client, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// get returns the whole body of a path.
func (r *rig) get(t *testing.T, path string) (string, *Answer, error) {
	t.Helper()
	return r.ask(t, Request{Path: path})
}

func (r *rig) ask(t *testing.T, q Request) (string, *Answer, error) {
	t.Helper()
	a, err := r.Get(t.Context(), q)
	if err != nil || a.Body == nil {
		return "", a, err
	}
	p, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	return string(p), a, err
}

// want fails the test unless err has an outcome, and a detail unless that is "-". No message names an address.
func want(t *testing.T, what string, err error, o status.Outcome, detail string) {
	t.Helper()
	rep := status.ReportOf(err)
	if status.Of(err) != o || detail != "-" && rep.Detail != detail {
		t.Errorf("%s: %v (%s, %q, %v), want %s, %q", what, err, status.Of(err), rep.Detail, Cause(err), o, detail)
	}
	if err != nil && (strings.Contains(rep.Message, "127.0.0.1") || strings.Contains(rep.Message, "::")) {
		t.Errorf("%s: the message names an address: %s", what, rep.Message)
	}
}

// resolver is a DNS server of the test's own. answer returns the addresses of a host for question n, from 1.
func resolver(t *testing.T, answer func(host string, n int64) []string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	var n atomic.Int64
	go func() {
		defer close(done)
		p := make([]byte, 4096)
		for {
			size, from, err := conn.ReadFrom(p)
			if err != nil {
				return
			}
			if reply, err := respond(p[:size], answer, &n); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func respond(p []byte, answer func(string, int64) []string, n *atomic.Int64) ([]byte, error) {
	var parser dnsmessage.Parser
	head, err := parser.Start(p)
	if err != nil {
		return nil, err
	}
	q, err := parser.Question()
	if err != nil {
		return nil, err
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: head.ID, Response: true, RecursionAvailable: true})
	err = errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
	if q.Type == dnsmessage.TypeA {
		n.Add(1)
	}
	for _, text := range answer(strings.TrimSuffix(q.Name.String(), "."), n.Load()) {
		switch a := netip.MustParseAddr(text); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			err = errors.Join(err, b.AResource(h, dnsmessage.AResource{A: a.As4()}))
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			err = errors.Join(err, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// neverAsk is a resolver that fails the test when it is asked.
func neverAsk(t *testing.T) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the DNS was asked")
		return nil, errors.New("no DNS")
	}}
}

// rawOrigin is a TLS server that answers each connection with text, byte by byte as it is, over HTTP/1.1.
func rawOrigin(t *testing.T, answer func(c net.Conn)) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(s.Close)
	cfg := s.TLS.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			p := make([]byte, 4096)
			_, _ = c.Read(p)
			answer(c)
			_ = c.Close()
		}
	}()
	return s, "https://" + l.Addr().String()
}
