package certs

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"allium/protocols/status"
)

// acmeAccount is the name of the account's key in the cache.
const acmeAccount = "acme_account.key"

// shortLived is the ACME profile of certificates for addresses: authorities sign those only for
// some days.
const shortLived = "shortlived"

// The bounds of one attempt at a certificate.
const (
	acmeCall    = 30 * time.Second // timeout of one HTTP request
	acmeAttempt = 3 * time.Minute  // timeout of one certificate, with all its requests
)

// authority orders certificates. Its methods may be called from several goroutines, once register
// has succeeded.
type authority struct {
	cfg     ACME
	http01  bool // the redirect listener answers HTTP-01 challenges
	cache   acmeCache
	calls   http.RoundTripper
	account acme.Account // has no key until it is registered
	proofs  proofs
	now     func() time.Time
	log     *slog.Logger
}

func newAuthority(cfg Config, d Deps) (*authority, error) {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DisableKeepAlives: true, // the next renewal is days away
	}
	if cfg.ACMECA != "" {
		pem, err := os.ReadFile(cfg.ACMECA)
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "gateway.tls.acme_ca: %w", err)
		}
		tr.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !tr.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, status.Errorf(status.BadRequest, "gateway.tls.acme_ca: %s holds no PEM certificate", cfg.ACMECA)
		}
	}
	return &authority{
		cfg: cfg.ACME, http01: cfg.RedirectListen != "", cache: acmeCache(d.ACMEDir), calls: tr, now: d.Now, log: d.Log,
		proofs: proofs{certs: map[string]*tls.Certificate{}, answers: map[string]string{}},
	}, nil
}

// client returns a client for one attempt, which reads at most maxACMEBytes.
func (a *authority) client() *acme.Client {
	answers := &boundedAnswers{RoundTripper: a.calls}
	answers.left.Store(maxACMEBytes)
	return &acme.Client{
		Directory: a.cfg.ACMEDirectory, UserAgent: "allium",
		HTTPClient: &http.Client{Transport: answers, Timeout: acmeCall},
	}
}

// obtain orders a certificate for a subject. It proves the subject by TLS-ALPN-01 and, if that fails and a redirect
// listener exists, by HTTP-01. Each attempt is a new order with one solver, so the library cannot choose another
// challenge.
func (a *authority) obtain(ctx context.Context, subject string) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, acmeAttempt)
	defer cancel()
	client := a.client()
	key, raw, err := newKey()
	if err != nil {
		return nil, err
	}
	csr, err := acmez.NewCSR(key, []string{subject})
	if err != nil {
		return nil, err
	}
	order, err := acmez.OrderParametersFromCSR(a.account, csr)
	if err != nil {
		return nil, err
	}
	if isAddress(subject) {
		order.Profile = shortLived
	}
	kinds := []string{acme.ChallengeTypeTLSALPN01}
	if a.http01 {
		kinds = append(kinds, acme.ChallengeTypeHTTP01)
	}
	var failed error
	for _, kind := range kinds {
		client := acmez.Client{Client: client, ChallengeSolvers: map[string]acmez.Solver{kind: solver{&a.proofs}}}
		chains, err := client.ObtainCertificate(ctx, order)
		if err == nil && len(chains) > 0 {
			return a.take(subject, append(raw, chains[0].ChainPEM...))
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", kind, err))
	}
	return nil, failed
}

// take checks the signed certificate against its key and subject, and stores both.
func (a *authority) take(subject string, raw []byte) (*tls.Certificate, error) {
	c, err := a.parsePair(subject, raw)
	if err != nil {
		return nil, fmt.Errorf("check the certificate that the authority signed: %w", err)
	}
	if err := a.cache.put(fileOf(subject), raw); err != nil {
		a.log.Warn("cannot store the certificate; the node orders it again after a restart",
			"subject", subject, "err", err)
	}
	return c, nil
}

// isAddress reports whether a subject is an address.
func isAddress(subject string) bool {
	_, err := netip.ParseAddr(subject)
	return err == nil
}

// fileOf returns the name of a subject's file in the cache.
func fileOf(subject string) string { return strings.ReplaceAll(subject, ":", "_") }

// registered reports whether there is an account.
func (a *authority) registered() bool { return a.account.PrivateKey != nil }

// register creates an account at the authority, or finds the account of the stored
// key. No other method may be called meanwhile.
func (a *authority) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, acmeAttempt)
	defer cancel()
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
	if a.cfg.ACMEEmail != "" {
		account.Contact = []string{"mailto:" + a.cfg.ACMEEmail}
	}
	account, err := a.client().NewAccount(ctx, account)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	a.account = account
	return nil
}

// solver provides the proof of a subject while the authority checks it.
type solver struct{ proofs *proofs }

// Present implements acmez.Solver.
func (s solver) Present(_ context.Context, ch acme.Challenge) error {
	if ch.Type != acme.ChallengeTypeTLSALPN01 {
		s.proofs.change(func(_ map[string]*tls.Certificate, answers map[string]string) {
			answers[ch.Token] = ch.KeyAuthorization
		})
		return nil
	}
	c, err := acmez.TLSALPN01ChallengeCert(ch)
	if err != nil {
		return err
	}
	s.proofs.change(func(certs map[string]*tls.Certificate, _ map[string]string) {
		certs[handshakeName(ch.Identifier.Value)] = c
	})
	return nil
}

// CleanUp implements acmez.Solver.
func (s solver) CleanUp(_ context.Context, ch acme.Challenge) error {
	s.proofs.change(func(certs map[string]*tls.Certificate, answers map[string]string) {
		delete(certs, handshakeName(ch.Identifier.Value))
		delete(answers, ch.Token)
	})
	return nil
}

// handshakeName returns the name by which an authority asks for the proof of a subject: an
// address by that of its reverse zone (RFC 8738 §6).
func handshakeName(subject string) string {
	ip, err := netip.ParseAddr(subject)
	if err != nil {
		return subject
	}
	var labels []string
	zone := "in-addr.arpa"
	if ip.Unmap().Is4() {
		labels = strings.Split(ip.Unmap().String(), ".")
	} else {
		labels, zone = strings.Split(hex.EncodeToString(ip.AsSlice()), ""), "ip6.arpa"
	}
	slices.Reverse(labels)
	return strings.Join(append(labels, zone), ".")
}

// parsePair parses a key and its certificates. It returns an error if the certificate does
// not name subject or is not valid now.
func (a *authority) parsePair(subject string, raw []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return nil, err
	}
	if err := c.Leaf.VerifyHostname(subject); err != nil {
		return nil, err
	}
	return &c, checkValidity(c.Leaf, a.now())
}

// stored returns the stored certificate of a subject, or nil if there is none or it is
// not valid.
func (a *authority) stored(subject string) *tls.Certificate {
	raw := a.readCache(fileOf(subject))
	if raw == nil {
		return nil
	}
	c, err := a.parsePair(subject, raw)
	if err != nil {
		a.log.Info("the stored certificate is not valid; the node orders a new one", "subject", subject, "err", err)
		return nil
	}
	return c
}

// readCache reads a file of the cache. It returns nil if there is none or it cannot be
// read, which it logs.
func (a *authority) readCache(name string) []byte {
	raw, err := a.cache.get(name)
	if err != nil {
		a.log.Warn("cannot read a file of the ACME directory", "name", name, "err", err)
	}
	return raw
}
