package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// acmeAccount is the name of the account's key in the cache.
const acmeAccount = "acme_account.key"

// obtain orders a certificate for a domain. It proves the domain by TLS-ALPN-01 and,
// if that fails and a redirect listener exists, by HTTP-01. Each attempt is an order
// of its own with one solver, so the library cannot choose another challenge.
func (a *acmeCerts) obtain(ctx context.Context, domain string) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, acmeAttempt)
	defer cancel()
	a.answers.left.Store(maxACMEBytes)
	if err := a.register(ctx); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	key, raw, err := newKey()
	if err != nil {
		return nil, err
	}
	csr, err := acmez.NewCSR(key, []string{domain})
	if err != nil {
		return nil, err
	}
	order, err := acmez.OrderParametersFromCSR(a.account, csr)
	if err != nil {
		return nil, err
	}
	kinds := []string{acme.ChallengeTypeTLSALPN01}
	if a.http01 {
		kinds = append(kinds, acme.ChallengeTypeHTTP01)
	}
	var failed error
	for _, kind := range kinds {
		client := acmez.Client{Client: a.client, ChallengeSolvers: map[string]acmez.Solver{kind: solver{a, domain}}}
		chains, err := client.ObtainCertificate(ctx, order)
		if err == nil && len(chains) > 0 {
			return a.take(domain, append(raw, chains[0].ChainPEM...))
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", kind, err))
	}
	return nil, failed
}

// take checks the signed certificate against its key and domain, and stores both.
func (a *acmeCerts) take(domain string, raw []byte) (*tls.Certificate, error) {
	c, err := a.parsePair(domain, raw)
	if err != nil {
		return nil, fmt.Errorf("check the certificate that the authority signed: %w", err)
	}
	if err := a.cache.put(domain, raw); err != nil {
		a.log.Warn("cannot store the certificate; the node orders it again after a restart",
			"domain", domain, "err", err)
	}
	return c, nil
}

// register creates an account at the authority, or finds the account of the stored
// key.
func (a *acmeCerts) register(ctx context.Context) error {
	if a.account.PrivateKey != nil {
		return nil
	}
	var key crypto.Signer
	if raw := a.readCache(acmeAccount); raw != nil {
		key, _ = parseKey(raw) // an invalid key is replaced
	}
	if key == nil {
		fresh, raw, err := newKey()
		if err != nil {
			return err
		}
		if err := a.cache.put(acmeAccount, raw); err != nil {
			return err
		}
		key = fresh
	}
	account := acme.Account{TermsOfServiceAgreed: true, PrivateKey: key}
	if a.email != "" {
		account.Contact = []string{"mailto:" + a.email}
	}
	account, err := a.client.NewAccount(ctx, account)
	if err == nil {
		a.account = account
	}
	return err
}

// solver provides the proof of a domain while the authority checks it.
type solver struct {
	a      *acmeCerts
	domain string
}

// Present implements acmez.Solver.
func (s solver) Present(_ context.Context, ch acme.Challenge) error {
	if ch.Type == acme.ChallengeTypeTLSALPN01 {
		c, err := acmez.TLSALPN01ChallengeCert(ch)
		if err != nil {
			return err
		}
		s.a.withLock(func() { s.a.alpn[s.domain] = c })
		return nil
	}
	s.a.withLock(func() { s.a.proofs[ch.Token] = ch.KeyAuthorization })
	return nil
}

// CleanUp implements acmez.Solver.
func (s solver) CleanUp(_ context.Context, ch acme.Challenge) error {
	s.a.withLock(func() {
		delete(s.a.alpn, s.domain)
		delete(s.a.proofs, ch.Token)
	})
	return nil
}

// withLock calls f with a.mu held.
func (a *acmeCerts) withLock(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// parsePair parses a key and its certificates. It returns an error if the certificate does
// not name domain or is not valid now.
func (a *acmeCerts) parsePair(domain string, raw []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return nil, err
	}
	if err := c.Leaf.VerifyHostname(domain); err != nil {
		return nil, err
	}
	return &c, checkValidity(c.Leaf, a.now())
}

// stored returns the stored certificate of a domain, or nil if there is none or it is
// not valid.
func (a *acmeCerts) stored(domain string) *tls.Certificate {
	raw := a.readCache(domain)
	if raw == nil {
		return nil
	}
	c, err := a.parsePair(domain, raw)
	if err != nil {
		a.log.Info("the stored certificate is not valid; the node orders a new one", "domain", domain, "err", err)
		return nil
	}
	return c
}

// readCache reads a file of the cache. It returns nil if there is none or it cannot be
// read, which it logs.
func (a *acmeCerts) readCache(name string) []byte {
	raw, err := a.cache.get(name)
	if err != nil {
		a.log.Warn("cannot read a file of the ACME directory", "name", name, "err", err)
	}
	return raw
}

// newKey creates a P-256 key and returns it with its PEM encoding.
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parseKey parses a private key in PEM.
func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the file is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	return signer, nil
}
