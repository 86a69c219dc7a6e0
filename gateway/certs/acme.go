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

// Waits of ACME. Authorities count failures by the hour, so the pauses grow.
const (
	ChallengePrefix = "/.well-known/acme-challenge/"
	acmeCall        = 30 * time.Second // one HTTP request
	acmeAttempt     = 3 * time.Minute  // one certificate, all its requests and waits
	acmeRetry       = 5 * time.Minute  // after the first failure; doubled with each
	acmeSlowest     = 3 * time.Hour    // between attempts
)

// ALPNProto is the protocol that the authority's handshakes for TLS-ALPN-01 offer.
const ALPNProto = acmez.ACMETLS1Protocol

// acmeCerts gets certificates from an ACME authority (RFC 8555) and renews them
// when a third of their time is left. It asks ahead of need, in run: a
// handshake takes what is there and never waits for the authority.
type acmeCerts struct {
	domains []string
	email   string
	http01  bool // the redirect listener answers
	cache   acmeCache
	answers *boundedAnswers
	client  *acme.Client
	account acme.Account // without a key until it is registered; used by Run alone
	now     func() time.Time
	log     *slog.Logger
	m       *metrics

	mu     sync.Mutex
	certs  map[string]*tls.Certificate // by domain
	alpn   map[string]*tls.Certificate // by domain, while it is proved by TLS-ALPN-01
	proofs map[string]string           // by token, while a domain is proved by HTTP-01
}

func newACMECerts(cfg Config, d Deps, m *metrics) (*acmeCerts, error) {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DisableKeepAlives: true, // a renewal every two months keeps no connection
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
	a := &acmeCerts{
		domains: cfg.ACMEDomains, email: cfg.ACMEEmail, http01: cfg.RedirectListen != "",
		cache: acmeCache(d.ACMEDir), answers: answers,
		client: &acme.Client{
			Directory: cfg.ACMEDirectory, UserAgent: "allium", HTTPClient: &http.Client{Transport: answers, Timeout: acmeCall},
		},
		now: d.Now, log: d.Log, m: m,
		certs: map[string]*tls.Certificate{}, alpn: map[string]*tls.Certificate{}, proofs: map[string]string{},
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a, nil
}

// renewal is when a certificate is to be got again: nothing before it, a third
// of its time left after.
func renewal(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}

// Run gets the certificates that are missing or about to end, one after the
// other, and waits for the next to be due.
func (a *acmeCerts) Run(ctx context.Context) {
	due, failures := map[string]time.Time{}, map[string]int{}
	for _, d := range a.domains {
		due[d] = a.now()
		if c := a.cached(d); c != nil {
			a.use(d, c)
			due[d] = renewal(c.Leaf)
		}
	}
	for ctx.Err() == nil {
		next := slices.MinFunc(a.domains, func(x, y string) int { return due[x].Compare(due[y]) })
		if wait := due[next].Sub(a.now()); wait > 0 {
			timer := time.NewTimer(min(wait, time.Hour)) // the clock may be set meanwhile
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
			pause := min(acmeSlowest, acmeRetry<<min(failures[next], 10))
			pause += rand.N(pause / 4)
			failures[next]++
			due[next] = a.now().Add(pause)
			a.log.Warn("no certificate from the ACME authority", "domain", next, "again_in", pause.Round(time.Second), "err", err)
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

// Get is the certificate of a handshake. One that offers acme-tls/1 alone is
// the authority's, looking for the proof.
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
			return status.Errorf(status.NotReady, "there is no certificate of %s yet; the log says what the ACME authority answers, and whether it can reach this node", d)
		}
		if err := inTime(c.Leaf, a.now()); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// Proof is what HTTP-01 answers under a token.
func (a *acmeCerts) Proof(token string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.proofs[token]
	return p, ok
}
