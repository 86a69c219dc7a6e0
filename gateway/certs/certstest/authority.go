// Package certstest makes certificates for tests.
package certstest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	Cert *x509.Certificate // its own
	Key  crypto.Signer     // of Cert
	Pool *x509.CertPool    // of Cert
}

// New returns a new Authority, with its own root certificate.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool()}
	a.Cert, a.Key = a.Sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	a.Pool.AddCert(a.Cert)
	return a
}

// Sign makes a key and a certificate of it; the authority's own signs itself.
func (a *Authority) Sign(t testing.TB, c *x509.Certificate) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := a.Cert, a.Key
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

// PEM is the file of certificates, and that of the key.
func PEM(t testing.TB, key crypto.Signer, certs ...*x509.Certificate) (chain, private []byte) {
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

// Pair writes a certificate for names, good until then, and returns the files.
func (a *Authority) Pair(t testing.TB, dir string, until time.Time, names ...string) (cert, key string) {
	t.Helper()
	leaf, signer := a.Sign(t, Leaf(until, names...))
	chain, private := PEM(t, signer, leaf)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	Write(t, cert, chain)
	Write(t, key, private)
	return cert, key
}

// Leaf is a certificate for names, good until then, that is not signed.
func Leaf(until time.Time, names ...string) *x509.Certificate {
	c := &x509.Certificate{NotBefore: until.Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	return c
}

// Write writes a file that its owner alone can read.
func Write(t testing.TB, name string, p []byte) {
	t.Helper()
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
}
