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

// Names in the cache; a domain's certificate is under the domain.
const acmeAccount = "acme_account.key"

// obtain gets a certificate: proved by TLS-ALPN-01, and if the authority cannot
// do that, by HTTP-01 where something listens for it. Each proof is an order of its
// own with one solver, so that the library has no choice to make.
func (a *acmeCerts) obtain(ctx context.Context, domain string) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, acmeAttempt)
	defer cancel()
	a.answers.left.Store(acmeBytes)
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

// take checks a key with the certificate that the authority signed for it, and
// keeps them.
func (a *acmeCerts) take(domain string, raw []byte) (*tls.Certificate, error) {
	c, err := a.pair(domain, raw)
	if err != nil {
		return nil, fmt.Errorf("what the authority signed: %w", err)
	}
	if err := a.cache.put(domain, raw); err != nil {
		a.log.Warn("the certificate cannot be kept; it is got again after a restart", "domain", domain, "err", err)
	}
	return c, nil
}

// register makes the account, or finds the one that the cached key has.
func (a *acmeCerts) register(ctx context.Context) error {
	if a.account.PrivateKey != nil {
		return nil
	}
	var key crypto.Signer
	if raw := a.recall(acmeAccount); raw != nil {
		key, _ = parseKey(raw) // what cannot be read is replaced
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

// solver shows the proof of a domain for as long as the authority looks at it.
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
		s.a.locked(func() { s.a.alpn[s.domain] = c })
		return nil
	}
	s.a.locked(func() { s.a.proofs[ch.Token] = ch.KeyAuthorization })
	return nil
}

// CleanUp implements acmez.Solver.
func (s solver) CleanUp(_ context.Context, ch acme.Challenge) error {
	s.a.locked(func() {
		delete(s.a.alpn, s.domain)
		delete(s.a.proofs, ch.Token)
	})
	return nil
}

func (a *acmeCerts) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// pair reads a key and its certificates, and refuses those that do not hold for
// domain now.
func (a *acmeCerts) pair(domain string, raw []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return nil, err
	}
	if err := c.Leaf.VerifyHostname(domain); err != nil {
		return nil, err
	}
	return &c, inTime(c.Leaf, a.now())
}

// cached is the certificate of an earlier run, nil if there is none that holds.
func (a *acmeCerts) cached(domain string) *tls.Certificate {
	raw := a.recall(domain)
	if raw == nil {
		return nil
	}
	c, err := a.pair(domain, raw)
	if err != nil {
		a.log.Info("the kept certificate is of no use any more", "domain", domain, "err", err)
		return nil
	}
	return c
}

// recall reads what was kept, nil if there is nothing.
func (a *acmeCerts) recall(name string) []byte {
	raw, err := a.cache.get(name)
	if err != nil {
		a.log.Warn("what ACME keeps cannot be read", "name", name, "err", err)
	}
	return raw
}

// newKey makes a P-256 key, and its PEM.
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

func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("no key to sign with")
	}
	return signer, nil
}
