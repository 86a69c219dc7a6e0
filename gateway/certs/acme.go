package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mholt/acmez/v3"

	"allium/protocols/status"
)

// ChallengePrefix is the path below which an authority looks for HTTP-01 proofs.
const ChallengePrefix = "/.well-known/acme-challenge/"

// ALPNProto is the only protocol that an authority offers in a TLS-ALPN-01 handshake.
const ALPNProto = acmez.ACMETLS1Protocol

// acmeCerts is the Source of certificates of an ACME authority (RFC 8555). Run orders
// them and renews each in time. A handshake uses the certificate in memory; only one for a
// domain that is certified on demand may wait for its first certificate, for firstWait.
//
// A subject is a domain or an address, as text in its one form.
type acmeCerts struct {
	cfg       ACME
	node      Node
	authority *authority
	ledger    *ledger
	demands   *demands
	ips       atomic.Pointer[[]netip.Addr] // the node's public addresses, as Run last saw them
	now       func() time.Time
	log       *slog.Logger
	m         *metrics

	mu    sync.Mutex                  // guards certs; lock: leaf
	certs map[string]*tls.Certificate // by subject
}

func newACMECerts(cfg Config, d Deps, m *metrics) (*acmeCerts, error) {
	authority, err := newAuthority(cfg, d)
	if err != nil {
		return nil, err
	}
	a := &acmeCerts{
		cfg: cfg.ACME, node: d.Node, authority: authority, ledger: openLedger(authority.cache, d.Now(), d.Log),
		demands: newDemands(), now: d.Now, log: d.Log, m: m, certs: map[string]*tls.Certificate{},
	}
	a.ips.Store(new([]netip.Addr))
	return a, nil
}

// longLived is the lifetime from which on a certificate is renewed when a third of it is left.
// A shorter one is renewed at its half, so that as many attempts are possible.
const longLived = 10 * 24 * time.Hour

// renewal returns when a certificate is renewed.
func renewal(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	if life < longLived {
		return leaf.NotAfter.Add(-life / 2)
	}
	return leaf.NotAfter.Add(-life / 3)
}

// use makes c the certificate of a subject.
func (a *acmeCerts) use(subject string, c *tls.Certificate) {
	a.m.inUse(subject, c.Leaf.NotAfter)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.certs[subject] = c
}

// drop forgets the certificate of a subject.
func (a *acmeCerts) drop(subject string) {
	a.m.gone(subject)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.certs, subject)
}

// held returns the certificate of a subject, or nil.
func (a *acmeCerts) held(subject string) *tls.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.certs[subject]
}

// look asks the node for its public addresses.
func (a *acmeCerts) look(ctx context.Context) {
	var all []netip.Addr
	if a.cfg.ACMEIP && a.node.Addresses != nil {
		all = a.node.Addresses(ctx)
	}
	all = all[:min(len(all), maxAddresses)]
	a.ips.Store(&all)
}

// maxAddresses is the most addresses of the node that get a certificate.
const maxAddresses = 4

// Get returns the certificate of the requested name. If the handshake names none, it is that of
// the address at which the connection arrived, or of another one of the node, or of the first
// domain. A handshake that offers only acme-tls/1 comes from the authority and gets the proof
// of the challenge.
func (a *acmeCerts) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := serverName(hello)
	if slices.Equal(hello.SupportedProtos, []string{ALPNProto}) {
		if c := a.authority.proofs.handshake(name); c != nil {
			return c, nil
		}
		return nil, errNoCertificate
	}
	if name == "" {
		return a.nameless(hello.Conn)
	}
	if c := a.held(name); c != nil {
		return c, nil
	}
	return a.demand(hello.Context(), name)
}

// serverName returns the name that a handshake asks for, in lower case.
func serverName(hello *tls.ClientHelloInfo) string {
	return strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
}

// nameless returns the certificate for a handshake that names no host.
func (a *acmeCerts) nameless(conn net.Conn) (*tls.Certificate, error) {
	var subjects []string
	if conn != nil {
		if at, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
			subjects = append(subjects, at.Addr().Unmap().WithZone("").String())
		}
	}
	for _, ip := range *a.ips.Load() { // behind NAT the node does not see at which one
		subjects = append(subjects, ip.String())
	}
	for _, s := range append(subjects, a.cfg.ACMEDomains...) {
		if c := a.held(s); c != nil {
			return c, nil
		}
	}
	return nil, errNoCertificate
}

func (a *acmeCerts) Covers(ctx context.Context, host string) bool {
	return slices.Contains(a.cfg.ACMEDomains, host) || a.held(host) != nil ||
		a.mayDemand(host) && a.node.Served(ctx, host)
}

func (a *acmeCerts) Name() string {
	if len(a.cfg.ACMEDomains) > 0 {
		return a.cfg.ACMEDomains[0]
	}
	for _, ip := range *a.ips.Load() {
		if s := ip.String(); a.held(s) != nil {
			return s
		}
	}
	return ""
}

// Check returns nil while every configured domain, and with acme_ip one address, has a certificate
// that is valid now. Those on demand do not count.
func (a *acmeCerts) Check() error {
	for _, d := range a.cfg.ACMEDomains {
		if err := a.checkHeld(d); err != nil {
			return err
		}
	}
	if !a.cfg.ACMEIP {
		return nil
	}
	ips := *a.ips.Load()
	if len(ips) == 0 {
		return status.Errorf(status.NotReady, "no public address of this node is known to get a certificate for "+
			"(gateway.tls.acme_ip); `allium doctor reach` says what peers found")
	}
	var failed error
	for _, ip := range ips {
		err := a.checkHeld(ip.String())
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// checkHeld returns nil if a subject has a certificate that is valid now.
func (a *acmeCerts) checkHeld(subject string) error {
	c := a.held(subject)
	if c == nil {
		return status.Errorf(status.NotReady,
			"there is no certificate of %s yet; the log says what the ACME authority "+
				"answers, and whether it can reach this node", subject)
	}
	if err := checkValidity(c.Leaf, a.now()); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// Proof returns the answer to the HTTP-01 challenge with a token.
func (a *acmeCerts) Proof(token string) (string, bool) { return a.authority.proofs.http(token) }

// proofs are those of challenges under way.
type proofs struct {
	mu      sync.Mutex                  // guards both maps; lock: leaf
	certs   map[string]*tls.Certificate // of TLS-ALPN-01, by the name in the handshake
	answers map[string]string           // of HTTP-01, by token
}

// handshake returns the proof of TLS-ALPN-01 for a name, or nil.
func (p *proofs) handshake(name string) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.certs[name]
}

// http returns the proof of HTTP-01 for a token.
func (p *proofs) http(token string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer, ok := p.answers[token]
	return answer, ok
}

// change calls f with the maps.
func (p *proofs) change(f func(certs map[string]*tls.Certificate, answers map[string]string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.certs, p.answers)
}
