package gateway

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	a.cert, a.key = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	a.pool.AddCert(a.cert)
	return a
}

// sign makes a key and a certificate of it; the authority's own signs itself.
func (a *authority) sign(t testing.TB, c *x509.Certificate) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// pem is the file of certificates, and that of the key.
func pemOf(t testing.TB, key crypto.Signer, certs ...*x509.Certificate) (chain, private []byte) {
	t.Helper()
	var b bytes.Buffer
	for _, c := range certs {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // to a buffer
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// pair writes a certificate for names, good until then, and returns the files.
func (a *authority) pair(t testing.TB, dir string, until time.Time, names ...string) (cert, key string) {
	t.Helper()
	leaf, signer := a.sign(t, leafFor(until, names...))
	chain, private := pemOf(t, signer, leaf)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, chain)
	write(t, key, private)
	return cert, key
}

func leafFor(until time.Time, names ...string) *x509.Certificate {
	c := &x509.Certificate{NotBefore: until.Add(-2 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	return c
}

func write(t testing.TB, name string, p []byte) {
	t.Helper()
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
}

// withTLS gives a test's Gateway a certificate for node.test and *.sites.test.
func (a *authority) withTLS(t testing.TB, opts ...option) option {
	cert, key := a.pair(t, t.TempDir(), time.Now().Add(time.Hour), "node.test", "*.sites.test")
	return func(c *Config, ad *AdminConfig) {
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
		TLSClientConfig: &tls.Config{RootCAs: a.pool}, DisableCompression: true, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address(t, n.Addrs().Gateway))
		},
	}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// dialTLS shakes hands with the public listener.
func (a *authority) dialTLS(t testing.TB, n *testNode, protos ...string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{RootCAs: a.pool, ServerName: "node.test", NextProtos: protos})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}
