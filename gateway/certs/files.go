package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"allium/internal/filewatch"
	"allium/protocols/status"
)

// pollEvery is the interval at which the certificate's files are checked for changes.
const pollEvery = 2 * time.Second

// certFiles is the Source of the operator's own certificate. It reads the files
// again when they change.
type certFiles struct {
	pair atomic.Pointer[pair]
	log  *slog.Logger
	m    *metrics

	files   *filewatch.Files
	current atomic.Pointer[tls.Certificate] // nil until the files were read for the first time
}

func newCertFiles(cfg Config, log *slog.Logger, m *metrics) (*certFiles, error) {
	f := &certFiles{log: log, m: m}
	f.Reconfigure(cfg)
	var err error
	f.files, err = filewatch.New(filewatch.Config{
		Files: f.names, Every: pollEvery, Read: f.read, Failed: f.failed,
	})
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		log.Warn("browsers do not accept the certificate in gateway.tls.cert", "err", err)
	}
	return f, nil
}

// pair has the names of the files of a certificate.
type pair struct{ cert, key string }

// Reconfigure names other files, which Run reads within seconds, or at the next Reload.
func (f *certFiles) Reconfigure(cfg Config) { f.pair.Store(&pair{cfg.Cert, cfg.Key}) }

func (f *certFiles) names() []string {
	p := f.pair.Load()
	return []string{p.cert, p.key}
}

// readPair reads a certificate and its key. It refuses a certificate that no browser
// accepts: with a broken chain or without a host name. It returns forbidden for a key
// that other users can read or that the group can change.
func readPair(cert, key string) (*tls.Certificate, error) {
	fi, err := os.Stat(key)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "gateway.tls.key: %w", err)
	}
	if mode := fi.Mode().Perm(); mode&0o027 != 0 {
		return nil, status.Errorf(status.Forbidden,
			"gateway.tls.key: %s can be read by others, or changed by its group "+
				"(mode %04o); run `chmod 600 %s`", key, mode, key)
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "gateway.tls.cert and key: %w", err)
	}
	if err := checkChain(c.Certificate); err != nil {
		return nil, fmt.Errorf("gateway.tls.cert: %s: %w", cert, err)
	}
	if len(c.Leaf.DNSNames) == 0 && len(c.Leaf.IPAddresses) == 0 {
		return nil, status.Errorf(status.BadRequest,
			"gateway.tls.cert: %s names no host (subject alternative name), so "+
				"no browser accepts it", cert)
	}
	return &c, nil
}

// read reads the files and puts their certificate in use, or returns why it cannot.
// The first certificate is used even if it is not valid now: that is better than
// none. A later one must be valid to replace it.
func (f *certFiles) read() error {
	p := f.pair.Load()
	c, err := readPair(p.cert, p.key)
	if err != nil {
		return err
	}
	before := f.current.Load()
	if before != nil {
		if err := checkValidity(c.Leaf, time.Now()); err != nil {
			return err
		}
		if slices.EqualFunc(c.Certificate, before.Certificate, bytes.Equal) {
			return nil
		}
	}
	f.current.Store(c)
	f.m.certNotAfter.Set(float64(c.Leaf.NotAfter.Unix()))
	if before != nil {
		f.m.certUpdates.WithLabelValues("ok").Inc()
		f.log.Info("a new certificate is in use", "not_after", c.Leaf.NotAfter)
	}
	return nil
}

func (f *certFiles) failed(err error) {
	f.m.certUpdates.WithLabelValues("failed").Inc()
	f.log.Warn("the new certificate cannot be used; the old one stays in use", "err", err)
}

// Run reads the files again when they change, and on Reload, until ctx is done.
func (f *certFiles) Run(ctx context.Context) { _ = f.files.Run(ctx, func() {}) } // the error is always nil

func (f *certFiles) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current.Load(), nil }

func (f *certFiles) Covers(host string) bool {
	return f.current.Load().Leaf.VerifyHostname(host) == nil
}

func (f *certFiles) Name() string {
	for _, n := range f.current.Load().Leaf.DNSNames {
		if n != "" && n[0] != '*' {
			return n
		}
	}
	return ""
}

func (f *certFiles) Check() error { return checkValidity(f.current.Load().Leaf, time.Now()) }

// Reload lets Run read the files again now. If the certificate is not usable, the one
// in use stays and Reload returns why.
func (f *certFiles) Reload(ctx context.Context) error { return f.files.Reload(ctx) }
