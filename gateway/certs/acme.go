package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"allium/protocols/status"
)

// Times of ACME. Authorities limit failures per hour, so the pauses grow.
const (
	// ChallengePrefix is the path below which an authority looks for HTTP-01 proofs.
	ChallengePrefix = "/.well-known/acme-challenge/"

	acmeCall     = 30 * time.Second // timeout of one HTTP request
	acmeAttempt  = 3 * time.Minute  // timeout of one certificate, with all its requests
	acmeRetry    = 5 * time.Minute  // pause after the first failure; each failure doubles it
	acmeMaxRetry = 3 * time.Hour    // longest pause, before up to a quarter of jitter
)

// ALPNProto is the only protocol that an authority offers in a TLS-ALPN-01 handshake.
const ALPNProto = acmez.ACMETLS1Protocol

// acmeCerts is the Source of certificates of an ACME authority (RFC 8555). Run orders
// them and renews each when a third of its lifetime is left. A handshake uses the
// certificate in memory and never waits for the authority.
type acmeCerts struct {
	domains []string
	email   string
	http01  bool // the redirect listener answers HTTP-01 challenges
	cache   acmeCache
	answers *boundedAnswers
	client  *acme.Client
	account acme.Account // has no key until it is registered; only Run uses it
	now     func() time.Time
	log     *slog.Logger
	m       *metrics

	mu     sync.Mutex                  // lock: leaf
	certs  map[string]*tls.Certificate // by domain
	alpn   map[string]*tls.Certificate // proofs of TLS-ALPN-01 challenges under way, by domain
	proofs map[string]string           // proofs of HTTP-01 challenges under way, by token
}

func newACMECerts(cfg Config, d Deps, m *metrics) (*acmeCerts, error) {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DisableKeepAlives: true, // the next renewal is weeks away
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
	answers := &boundedAnswers{RoundTripper: tr}
	return &acmeCerts{
		domains: cfg.ACMEDomains, email: cfg.ACMEEmail, http01: cfg.RedirectListen != "",
		cache: acmeCache(d.ACMEDir), answers: answers,
		client: &acme.Client{
			Directory: cfg.ACMEDirectory, UserAgent: "allium",
			HTTPClient: &http.Client{Transport: answers, Timeout: acmeCall},
		},
		now: d.Now, log: d.Log, m: m,
		certs: map[string]*tls.Certificate{}, alpn: map[string]*tls.Certificate{}, proofs: map[string]string{},
	}, nil
}

// renewal returns when a certificate is renewed: when a third of its lifetime is left.
func renewal(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}

// Run loads the stored certificates. Then it orders certificates that are missing or
// due for renewal, one at a time, until ctx is done.
func (a *acmeCerts) Run(ctx context.Context) {
	due, failures := map[string]time.Time{}, map[string]int{}
	for _, d := range a.domains {
		due[d] = a.now()
		if c := a.stored(d); c != nil {
			a.use(d, c)
			due[d] = renewal(c.Leaf)
		}
	}
	for ctx.Err() == nil {
		next := slices.MinFunc(a.domains, func(x, y string) int { return due[x].Compare(due[y]) })
		if wait := due[next].Sub(a.now()); wait > 0 {
			timer := time.NewTimer(min(wait, time.Hour)) // the system clock may change meanwhile
			select {
			case <-ctx.Done():
				timer.Stop()
			case <-timer.C:
			}
			continue
		}
		c, err := a.obtain(ctx, next)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause := min(acmeMaxRetry, acmeRetry<<min(failures[next], 10))
			pause += rand.N(pause / 4)
			failures[next]++
			due[next] = a.now().Add(pause)
			a.log.Warn("cannot get a certificate from the ACME authority", "domain", next,
				"again_in", pause.Round(time.Second), "err", err)
			a.m.certUpdates.WithLabelValues("failed").Inc()
			continue
		}
		failures[next] = 0
		due[next] = renewal(c.Leaf).Add(rand.N(time.Hour))
		a.use(next, c)
		a.m.certUpdates.WithLabelValues("ok").Inc()
		a.log.Info("a new certificate is in use", "domain", next, "not_after", c.Leaf.NotAfter)
	}
}

// use makes c the certificate of a domain.
func (a *acmeCerts) use(domain string, c *tls.Certificate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.certs[domain] = c
	first := c.Leaf.NotAfter
	for _, other := range a.certs {
		if other.Leaf.NotAfter.Before(first) {
			first = other.Leaf.NotAfter
		}
	}
	a.m.certNotAfter.Set(float64(first.Unix()))
}

// Get returns the certificate of the requested name, or of the first domain if the
// handshake names none. A handshake that offers only acme-tls/1 comes from the
// authority and gets the proof of the challenge.
func (a *acmeCerts) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if name == "" {
		name = a.domains[0]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.certs[name]
	if slices.Equal(hello.SupportedProtos, []string{ALPNProto}) {
		c = a.alpn[name]
	}
	if c == nil {
		return nil, errNoCertificate
	}
	return c, nil
}

func (a *acmeCerts) Covers(host string) bool { return slices.Contains(a.domains, host) }

func (a *acmeCerts) Name() string { return a.domains[0] }

func (a *acmeCerts) Check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.domains {
		c := a.certs[d]
		if c == nil {
			return status.Errorf(status.NotReady,
				"there is no certificate of %s yet; the log says what the ACME authority "+
					"answers, and whether it can reach this node", d)
		}
		if err := checkValidity(c.Leaf, a.now()); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// Proof returns the answer to the HTTP-01 challenge with a token.
func (a *acmeCerts) Proof(token string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.proofs[token]
	return p, ok
}
