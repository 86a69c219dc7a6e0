package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
	"time"

	"allium/internal/env"
	"allium/protocols/status"
)

// Source provides the certificates of the public listener. It is safe for
// concurrent use. All methods but Run are cheap and do no I/O.
type Source interface {
	// Get returns the certificate of a handshake, as tls.Config.GetCertificate.
	Get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Covers reports whether a certificate names the host, a name or an address.
	Covers(host string) bool
	// Name returns the first host name of the listener, or "" if no certificate
	// has a name without a wildcard.
	Name() string
	// Check returns nil while every name has a certificate that is valid now, and
	// otherwise not_ready.
	Check() error
	// Run keeps the certificates up to date until ctx is done.
	Run(ctx context.Context)
}

// Deps are the services that a Source uses.
type Deps struct {
	env.Env

	ACMEDir string // directory of the ACME account and certificates; empty: they stay in RAM
}

// New returns the source that cfg describes, or nil if the listener speaks http. It
// reads the files of the configuration, and returns an error if they are not usable.
func New(cfg Config, d Deps) (Source, error) {
	d.Env.SetDefaults()
	m := newMetrics(d.Metrics)
	switch {
	case len(cfg.ACMEDomains) > 0:
		return newACMECerts(cfg, d, m)
	case cfg.Enabled():
		return newCertFiles(cfg, d.Log, m)
	default:
		return nil, nil
	}
}

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
