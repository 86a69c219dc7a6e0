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
	"slices"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// Names in the cache; a domain's certificate is under the domain.
const acmeAccount = "acme_account.key"

// obtain gets a certificate: proved by TLS-ALPN-01, and if the authority cannot
// do that, by HTTP-01 where something listens for it.
func (a *acmeCerts) obtain(ctx context.Context, domain string) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, acmeAttempt)
	defer cancel()
	if err := a.register(ctx); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	kinds := []string{"tls-alpn-01"}
	if a.http01 {
		kinds = append(kinds, "http-01")
	}
	var failed error
	for _, kind := range kinds {
		order, err := a.prove(ctx, domain, kind)
		if err == nil {
			return a.finalize(ctx, domain, order)
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", kind, err))
	}
	return nil, failed
}

// register makes the account, or finds the one that the cached key has.
func (a *acmeCerts) register(ctx context.Context) error {
	if a.client.Key != nil {
		return nil
	}
	var key crypto.Signer
	if raw := a.recall(ctx, acmeAccount); raw != nil {
		key, _ = parseKey(raw) // what cannot be read is replaced
	}
	if key == nil {
		fresh, raw, err := newKey()
		if err != nil {
			return err
		}
		if err := a.keep(ctx, acmeAccount, raw); err != nil {
			return err
		}
		key = fresh
	}
	a.client.Key = key
	account := &acme.Account{}
	if a.email != "" {
		account.Contact = []string{"mailto:" + a.email}
	}
	_, err := a.client.Register(ctx, account, acme.AcceptTOS)
	if err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		a.client.Key = nil // or the next attempt would not register
		return err
	}
	return nil
}

// prove orders a certificate and proves the domain in one way.
func (a *acmeCerts) prove(ctx context.Context, domain, kind string) (*acme.Order, error) {
	order, err := a.client.AuthorizeOrder(ctx, acme.DomainIDs(domain))
	if err != nil {
		return nil, err
	}
	for _, u := range order.AuthzURLs {
		z, err := a.client.GetAuthorization(ctx, u)
		if err != nil {
			return nil, err
		}
		if z.Status == acme.StatusValid {
			continue
		}
		i := slices.IndexFunc(z.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
		if i < 0 {
			return nil, errors.New("the authority does not offer it")
		}
		if err := a.answer(ctx, domain, z, z.Challenges[i]); err != nil {
			return nil, err
		}
	}
	proved, err := a.client.WaitOrder(ctx, order.URI)
	if err != nil {
		return nil, err
	}
	proved.URI = order.URI // an authority says it once
	return proved, nil
}

// answer shows the proof for as long as the authority looks at it.
func (a *acmeCerts) answer(ctx context.Context, domain string, z *acme.Authorization, ch *acme.Challenge) error {
	var show, hide func()
	if ch.Type == "tls-alpn-01" {
		c, err := a.client.TLSALPN01ChallengeCert(ch.Token, domain)
		if err != nil {
			return err
		}
		show, hide = func() { a.alpn[domain] = &c }, func() { delete(a.alpn, domain) }
	} else {
		p, err := a.client.HTTP01ChallengeResponse(ch.Token)
		if err != nil {
			return err
		}
		show, hide = func() { a.proofs[ch.Token] = p }, func() { delete(a.proofs, ch.Token) }
	}
	a.locked(show)
	defer a.locked(hide)
	if _, err := a.client.Accept(ctx, ch); err != nil {
		return err
	}
	_, err := a.client.WaitAuthorization(ctx, z.URI)
	return err
}

func (a *acmeCerts) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// finalize has a new key signed, checks what comes and keeps it.
func (a *acmeCerts) finalize(ctx context.Context, domain string, order *acme.Order) (*tls.Certificate, error) {
	key, raw, err := newKey()
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{domain}}, key)
	if err != nil {
		return nil, err
	}
	der, _, err := a.client.CreateOrderCert(ctx, order.FinalizeURL, csr, true)
	if err != nil {
		// An authority that takes its time need not say again where the order is,
		// and then the library does not know where to wait.
		if o, failed := a.client.WaitOrder(ctx, order.URI); failed == nil && o.Status == acme.StatusValid {
			der, err = a.client.FetchCert(ctx, o.CertURL, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("finalize: %w", err)
	}
	for _, d := range der {
		raw = append(raw, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d})...)
	}
	c, err := a.pair(domain, raw)
	if err != nil {
		return nil, fmt.Errorf("what the authority signed: %w", err)
	}
	if err := a.keep(ctx, domain, raw); err != nil {
		a.log.Warn("the certificate cannot be kept; it is got again after a restart", "domain", domain, "err", err)
	}
	return c, nil
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
func (a *acmeCerts) cached(ctx context.Context, domain string) *tls.Certificate {
	raw := a.recall(ctx, domain)
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
func (a *acmeCerts) recall(ctx context.Context, name string) []byte {
	if a.cache == nil {
		return nil
	}
	raw, err := a.cache.Get(ctx, name)
	if err != nil && !errors.Is(err, autocert.ErrCacheMiss) {
		a.log.Warn("what ACME keeps cannot be read", "name", name, "err", err)
	}
	return raw
}

func (a *acmeCerts) keep(ctx context.Context, name string, raw []byte) error {
	if a.cache == nil {
		return nil
	}
	return a.cache.Put(ctx, name, raw)
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
