package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"allium/gateway/certs/certstest"
	"allium/gateway/server"
)

// authority signs certificates for a test's Gateway.
type authority struct{ *certstest.Authority }

func newAuthority(t testing.TB) *authority { return &authority{certstest.New(t)} }

// withTLS gives a test's Gateway a certificate for node.test and *.sites.test.
func (a *authority) withTLS(t testing.TB, opts ...option) option {
	cert, key := a.Pair(t, t.TempDir(), time.Now().Add(time.Hour), "node.test", "*.sites.test")
	return func(c *Config, ad *server.AdminConfig) {
		c.TLS.Cert, c.TLS.Key = cert, key
		for _, o := range opts {
			o(c, ad)
		}
	}
}

// address is where a URL of a Gateway is really found: names of tests are on
// loopback.
func address(t testing.TB, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", u.Port())
}

// https is a client of a Gateway that trusts the authority, with one version
// of HTTP.
func (a *authority) https(t testing.TB, n *testNode, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: a.Pool}, DisableCompression: true, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address(t, n.Addrs().Gateway))
		},
	}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// dialTLS shakes hands with the public listener.
func (a *authority) dialTLS(t testing.TB, n *testNode, protos ...string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{
		RootCAs: a.Pool, ServerName: "node.test", NextProtos: protos,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}
