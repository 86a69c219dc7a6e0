package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// Source is what the public listener proves itself with. Its methods may be
// called from any goroutine; all but Run are cheap and do no I/O.
type Source interface {
	// Get is tls.Config.GetCertificate.
	Get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Covers reports whether a host name or address is one of the listener's.
	Covers(host string) bool
	// Name is how the listener is called, empty where no certificate says so.
	Name() string
	// Check returns nil while there is a certificate that holds for every name.
	Check() error
	// Run keeps the certificates up to date until ctx is done.
	Run(ctx context.Context)
}

// Deps is what a Source works with.
type Deps struct {
	ACMEDir string                // where ACME keeps its account and certificates; empty: in RAM
	Now     func() time.Time      // of ACME's renewals; nil: time.Now
	Log     *slog.Logger          // is needed
	Metrics prometheus.Registerer // nil: not registered
}

// New returns what cfg asks for, nil for http. Files are read here for the first
// time.
func New(cfg Config, d Deps) (Source, error) {
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

// CheckFiles reads the files that the configuration names as [New] does. Its
// error is what New would return.
func (c Config) CheckFiles() error {
	_, err := New(c, Deps{Log: slog.New(slog.DiscardHandler)})
	return err
}

// StrictTransportSecurity is the value of Strict-Transport-Security, empty for none.
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

// inTime refuses a certificate that is not good at a time.
func inTime(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(leaf.NotBefore):
		return status.Errorf(status.NotReady, "the certificate holds from %s on; see whether the clock is right", leaf.NotBefore.UTC().Format(time.RFC3339))
	case now.After(leaf.NotAfter):
		return status.Errorf(status.NotReady, "the certificate ended at %s; renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkChain refuses certificates that do not lead from one to the next.
func checkChain(der [][]byte) error {
	var prev *x509.Certificate
	for i, raw := range der {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		if prev != nil {
			if err := prev.CheckSignatureFrom(c); err != nil {
				return status.Errorf(status.BadRequest, "certificate %d is not signed by the one after it, %q; put the node's own first, then each signer: %w", i, c.Subject, err)
			}
		}
		prev = c
	}
	return nil
}

var errNoCertificate = errors.New("there is no certificate for this name")
