package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"allium/internal/env"
	"allium/protocols/status"
)

// Source provides the certificates of the public listener. It is safe for
// concurrent use. All methods but Run are cheap and do no I/O, but Get may wait for some seconds
// for the first certificate of a domain on demand.
type Source interface {
	// Get returns the certificate of a handshake, as tls.Config.GetCertificate.
	Get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Covers reports whether there is a certificate of the host, a name or an address, or whether one
	// is ordered when a handshake asks for it.
	Covers(ctx context.Context, host string) bool
	// Name returns the first host name of the listener, or "" if no certificate
	// has a name without a wildcard.
	Name() string
	// Check returns nil while every configured name has a certificate that is valid now, and
	// otherwise not_ready.
	Check() error
	// Run keeps the certificates up to date until ctx is done.
	Run(ctx context.Context)
}

// Deps are the services that a Source uses.
type Deps struct {
	env.Env
	Node
}

// Node has the parts of the node that a Source uses. Each may be missing.
type Node struct {
	ACMEDir string // directory of the ACME account and certificates; empty: they stay in RAM

	// Served reports whether the node serves a domain, in lower case and ASCII, as a site. Only such
	// domains get certificates on demand. It ends when ctx does. Missing: those that gateway.sites names.
	Served func(ctx context.Context, domain string) bool
	// Addresses returns the public addresses of the node, the best first. It is asked every minute.
	Addresses func(ctx context.Context) []netip.Addr
}

// New returns the source that cfg describes, or nil if the listener speaks http. It
// reads the files of the configuration, and returns an error if they are not usable.
func New(cfg Config, d Deps) (Source, error) {
	d.Env.SetDefaults()
	m := newMetrics(d.Metrics)
	switch {
	case !cfg.Enabled():
		return nil, nil
	case !cfg.Orders():
		return newCertFiles(cfg, d.Log, m)
	}
	acme, err := newACMECerts(cfg, d, m)
	if err != nil || !cfg.ownFiles() {
		return acme, err
	}
	files, err := newCertFiles(cfg, d.Log, m)
	if err != nil {
		return nil, err
	}
	return &both{files, acme}, nil
}

// both is the Source of certificates from files and from an authority. A name that a file has
// is that file's.
type both struct {
	files *certFiles
	acme  *acmeCerts
}

// Get prefers the files. A handshake that names no host gets the certificate of an address, or
// the first of the files.
func (b *both) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if b.files.has(serverName(hello)) && !slices.Equal(hello.SupportedProtos, []string{ALPNProto}) {
		return b.files.Get(hello)
	}
	c, err := b.acme.Get(hello)
	if err != nil && hello.ServerName == "" {
		return b.files.Get(hello)
	}
	return c, err
}

func (b *both) Covers(ctx context.Context, host string) bool {
	return b.files.Covers(ctx, host) || b.acme.Covers(ctx, host)
}

func (b *both) Name() string { return cmp.Or(b.files.Name(), b.acme.Name()) }

func (b *both) Check() error { return errors.Join(b.files.Check(), b.acme.Check()) }

func (b *both) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { b.files.Run(ctx) })
	b.acme.Run(ctx)
	running.Wait()
}

// Proof returns the answer to the HTTP-01 challenge with a token.
func (b *both) Proof(token string) (string, bool) { return b.acme.Proof(token) }

// Reload reads the files again now.
func (b *both) Reload(ctx context.Context) error { return b.files.Reload(ctx) }

// Reconfigure names other files.
func (b *both) Reconfigure(cfg Config) { b.files.Reconfigure(cfg) }

// CheckFiles reads the files of the configuration and returns the error that [New]
// would return.
func (c Config) CheckFiles() error {
	_, err := New(c, Deps{})
	return err
}

// StrictTransportSecurity returns the value of the Strict-Transport-Security header,
// or "" for no header: without https, or if HSTS is below 1 s.
func (c Config) StrictTransportSecurity() string {
	if !c.Enabled() || c.HSTS < time.Second {
		return ""
	}
	v := "max-age=" + strconv.FormatInt(int64(c.HSTS/time.Second), 10)
	if c.HSTSSubdomains {
		v += "; includeSubDomains"
	}
	return v
}

// checkValidity returns not_ready if a certificate is not valid at the time now.
func checkValidity(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(leaf.NotBefore):
		return status.Errorf(status.NotReady, "the certificate holds from %s on; see whether the clock is right",
			leaf.NotBefore.UTC().Format(time.RFC3339))
	case now.After(leaf.NotAfter):
		return status.Errorf(status.NotReady, "the certificate ended at %s; renew it",
			leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkChain returns bad_request if a certificate is not signed by the one after it.
func checkChain(der [][]byte) error {
	var prev *x509.Certificate
	for i, raw := range der {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		if prev != nil {
			if err := prev.CheckSignatureFrom(c); err != nil {
				return status.Errorf(status.BadRequest,
					"certificate %d is not signed by the one after it, %q; put the node's "+
						"own first, then each signer: %w", i, c.Subject, err)
			}
		}
		prev = c
	}
	return nil
}

// errNoCertificate ends a handshake for a name without a certificate.
var errNoCertificate = errors.New("there is no certificate for this name")
