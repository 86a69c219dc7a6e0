package certs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"allium/internal/filewatch"
	"allium/protocols/status"
)

// pollEvery is the interval at which the certificate's files are checked for changes.
const pollEvery = 2 * time.Second

// certFiles is the Source of the operator's own certificates. It reads the files
// again when they change.
type certFiles struct {
	pairs atomic.Pointer[[]Pair]
	log   *slog.Logger
	m     *metrics

	files   *filewatch.Files
	current atomic.Pointer[ownCerts] // nil until the files were read for the first time
}

// ownCerts are certificates of files that are in use together.
type ownCerts struct {
	all    map[Pair]*tls.Certificate
	first  *tls.Certificate            // of the first pair: for a handshake that names no host, or one of none of them
	byName map[string]*tls.Certificate // by host name in lower case, also *.example.org, and by address
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
		log.Warn("browsers do not accept a certificate of gateway.tls", "err", err)
	}
	return f, nil
}

// Pair has the names of the files of a certificate, which may be the same file. Of is the configuration key that names
// them.
type Pair struct{ Cert, Key, Of string }

// The names of the files in a directory of gateway.tls.certs, as ACME clients write them.
const (
	chainFile = "fullchain.pem"
	keyFile   = "privkey.pem"
)

// ofCerts is the configuration key of further certificates.
const ofCerts = "gateway.tls.certs"

// Pairs returns the files of the operator's own certificates: that of cert and key first.
// It looks whether an entry of certs is a directory.
func (c Config) Pairs() (all []Pair) {
	if c.Cert != "" {
		all = append(all, Pair{c.Cert, c.Key, "gateway.tls.cert"})
	}
	for _, name := range c.Certs {
		p := Pair{name, name, ofCerts}
		if fi, err := os.Stat(name); err == nil && fi.IsDir() {
			p = Pair{filepath.Join(name, chainFile), filepath.Join(name, keyFile), ofCerts}
		}
		all = append(all, p)
	}
	return all
}

// Reconfigure names other files, which Run reads within seconds, or at the next Reload.
func (f *certFiles) Reconfigure(cfg Config) {
	pairs := cfg.Pairs()
	f.pairs.Store(&pairs)
}

func (f *certFiles) names() (names []string) {
	for _, p := range *f.pairs.Load() {
		names = append(names, p.Cert, p.Key)
	}
	return names
}

// readPair reads a certificate and its key. It refuses a certificate that no browser
// accepts: with a broken chain or without a host name. It returns forbidden for a key
// that other users can read or that the group can change.
func readPair(p Pair) (*tls.Certificate, error) {
	cert, key := p.Cert, p.Key
	fi, err := os.Stat(key)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "%s: the key of a certificate: %w", p.Of, err)
	}
	if mode := fi.Mode().Perm(); mode&0o027 != 0 {
		return nil, status.Errorf(status.Forbidden,
			"%s: the key %s can be read by others, or changed by its group "+
				"(mode %04o); run `chmod 600 %s`", p.Of, key, mode, key)
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "%s: %s and its key: %w", p.Of, cert, err)
	}
	if err := checkChain(c.Certificate); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", p.Of, cert, err)
	}
	if len(c.Leaf.DNSNames) == 0 && len(c.Leaf.IPAddresses) == 0 {
		return nil, status.Errorf(status.BadRequest,
			"%s: %s names no host (subject alternative name), so "+
				"no browser accepts it", p.Of, cert)
	}
	return &c, nil
}

// read reads the files and puts their certificates in use, or returns why it cannot.
// At first every pair must be good, and its certificate is used even if it is not valid now:
// that is better than none. Later a bad pair leaves its old certificate in use, and a new one
// must be valid to replace it.
func (f *certFiles) read() error {
	before := f.current.Load()
	next := &ownCerts{all: map[Pair]*tls.Certificate{}, byName: map[string]*tls.Certificate{}}
	var failed error
	var fresh []*tls.Certificate
	for _, p := range *f.pairs.Load() {
		c, err := readPair(p)
		var old *tls.Certificate
		if before != nil {
			old = before.all[p]
			if err == nil {
				err = checkValidity(c.Leaf, time.Now())
			}
		}
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
			c = old
		case old != nil && slices.EqualFunc(c.Certificate, old.Certificate, bytes.Equal):
			c = old
		default:
			fresh = append(fresh, c)
		}
		if c != nil {
			next.add(p, c)
		}
	}
	if before == nil && failed != nil || next.first == nil {
		return failed
	}
	f.use(before, next, fresh)
	return failed
}

// add puts a certificate in use for its names, which those before it keep.
func (o *ownCerts) add(p Pair, c *tls.Certificate) {
	o.all[p] = c
	o.first = cmp.Or(o.first, c)
	for _, name := range hostNames(c.Leaf) {
		if o.byName[name] == nil {
			o.byName[name] = c
		}
	}
}

// hostNames returns the host names and addresses of a certificate, in lower case.
func hostNames(leaf *x509.Certificate) (names []string) {
	for _, n := range leaf.DNSNames {
		names = append(names, strings.ToLower(n))
	}
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// of returns the certificate that names a host, or nil.
func (o *ownCerts) of(host string) *tls.Certificate {
	if c := o.byName[host]; c != nil {
		return c
	}
	_, parent, ok := strings.Cut(host, ".")
	if !ok || net.ParseIP(host) != nil {
		return nil
	}
	return o.byName["*."+parent]
}

// use puts next in the place of before.
func (f *certFiles) use(before, next *ownCerts, fresh []*tls.Certificate) {
	f.current.Store(next)
	for p, c := range next.all {
		f.m.inUse(p.Cert, c.Leaf.NotAfter)
	}
	if before == nil {
		return
	}
	for p := range before.all {
		if next.all[p] == nil {
			f.m.gone(p.Cert)
		}
	}
	for _, c := range fresh {
		f.m.certUpdates.WithLabelValues("ok").Inc()
		f.log.Info("a new certificate is in use", "names", hostNames(c.Leaf), "not_after", c.Leaf.NotAfter)
	}
}

func (f *certFiles) failed(err error) {
	f.m.certUpdates.WithLabelValues("failed").Inc()
	f.log.Warn("the new certificate cannot be used; the old one stays in use", "err", err)
}

// Run reads the files again when they change, and on Reload, until ctx is done.
func (f *certFiles) Run(ctx context.Context) { _ = f.files.Run(ctx, func() {}) } // the error is always nil

// Get returns the certificate of the requested name, or the first one.
func (f *certFiles) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	o := f.current.Load()
	return cmp.Or(o.of(serverName(hello)), o.first), nil
}

func (f *certFiles) Covers(_ context.Context, host string) bool { return f.has(host) }

// has reports whether a certificate names the host.
func (f *certFiles) has(host string) bool { return f.current.Load().of(host) != nil }

func (f *certFiles) Name() string {
	o := f.current.Load()
	for _, p := range *f.pairs.Load() {
		if c := o.all[p]; c != nil {
			for _, n := range c.Leaf.DNSNames {
				if n != "" && n[0] != '*' {
					return n
				}
			}
		}
	}
	return ""
}

func (f *certFiles) Check() error {
	for p, c := range f.current.Load().all {
		if err := checkValidity(c.Leaf, time.Now()); err != nil {
			return fmt.Errorf("%s: %w", p.Cert, err)
		}
	}
	return nil
}

// Reload lets Run read the files again now. If a certificate is not usable, the one
// in use stays and Reload returns why.
func (f *certFiles) Reload(ctx context.Context) error { return f.files.Reload(ctx) }
