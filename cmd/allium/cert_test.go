package main

import (
	"bytes"
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
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdCert writes ca.pem, cert.pem and key.pem: an authority, and a certificate
// of it for the names and addresses given.
func cmdCert(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: cert NAME…")
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature}
	for _, a := range args {
		if ip := net.ParseIP(a); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, a)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	ts.Check(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	ts.Check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: caDER}, "cert.pem": {Type: "CERTIFICATE", Bytes: leafDER},
		"key.pem": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		var b bytes.Buffer
		ts.Check(pem.Encode(&b, block))
		ts.Check(os.WriteFile(ts.MkAbs(name), b.Bytes(), 0o600))
	}
}

// transportOf is what the script's get uses: it trusts $CA beside nothing, where
// that is set, and speaks HTTP/2 where the server does.
func transportOf(ts *testscript.TestScript) *http.Transport {
	t := &http.Transport{DisableKeepAlives: true}
	if ca := ts.Getenv("CA"); ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ts.ReadFile(ca))) {
			ts.Fatalf("no certificate in %s", ca)
		}
		t.TLSClientConfig, t.ForceAttemptHTTP2 = &tls.Config{RootCAs: pool}, true
	}
	return t
}
