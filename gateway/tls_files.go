package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"allium/protocols/status"
)

// lookEvery is how often the files of a certificate are looked at.
const lookEvery = 2 * time.Second

// certFiles is a certificate of the operator's own, read again when its files
// change. run is the only one that reads them after newCertFiles.
type certFiles struct {
	cert, key string
	log       *slog.Logger
	m         *metrics

	asked   chan chan<- error // to be read again now
	seen    stamps            // of the last try, good or bad
	current atomic.Pointer[tls.Certificate]
}

// stamps tell whether one of the two files is another than it was.
type stamps [2]struct {
	at   time.Time
	size int64
}

func newCertFiles(cfg TLSConfig, log *slog.Logger, m *metrics) (*certFiles, error) {
	f := &certFiles{cert: cfg.Cert, key: cfg.Key, log: log, m: m, asked: make(chan chan<- error)}
	var err error
	if f.seen, err = f.stamp(); err != nil {
		return nil, err
	}
	c, err := readPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	f.use(c)
	if err := f.ok(); err != nil {
		log.Warn("gateway.tls.cert is of no use to browsers", "err", err)
	}
	return f, nil
}

// readPair reads a certificate with its key and refuses what browsers would
// not believe, or what others may have copied.
func readPair(cert, key string) (*tls.Certificate, error) {
	fi, err := os.Stat(key)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "gateway.tls.key: %w", err)
	}
	if mode := fi.Mode().Perm(); mode&0o027 != 0 {
		return nil, status.Errorf(status.Forbidden, "gateway.tls.key: %s can be read by others, or changed by its group (mode %04o); run `chmod 600 %s`", key, mode, key)
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "gateway.tls.cert and key: %w", err)
	}
	if err := checkChain(c.Certificate); err != nil {
		return nil, fmt.Errorf("gateway.tls.cert: %s: %w", cert, err)
	}
	if len(c.Leaf.DNSNames) == 0 && len(c.Leaf.IPAddresses) == 0 {
		return nil, status.Errorf(status.BadRequest, "gateway.tls.cert: %s names no host (subject alternative name), so no browser accepts it", cert)
	}
	return &c, nil
}

func (f *certFiles) stamp() (s stamps, err error) {
	for i, name := range []string{f.cert, f.key} {
		var fi fs.FileInfo
		if fi, err = os.Stat(name); err != nil {
			return s, status.Errorf(status.BadRequest, "gateway.tls: %w", err)
		}
		s[i].at, s[i].size = fi.ModTime(), fi.Size()
	}
	return s, nil
}

func (f *certFiles) use(c *tls.Certificate) {
	f.current.Store(c)
	f.m.certNotAfter.Set(float64(c.Leaf.NotAfter.Unix()))
}

// look takes over the files if they changed since the last time. Bad ones
// leave the certificate that is in use, with a warning each time they change.
func (f *certFiles) look() {
	now, err := f.stamp()
	switch {
	case err == nil && now == f.seen:
	case err != nil && f.seen == (stamps{}): // gone, and that was said
	default:
		_ = f.read() // it says what is wrong
	}
}

// read takes over the files as they are, or says why it cannot.
func (f *certFiles) read() error {
	var err error
	if f.seen, err = f.stamp(); err != nil {
		f.seen = stamps{}
	}
	var c *tls.Certificate
	if err == nil {
		c, err = readPair(f.cert, f.key)
	}
	if err == nil {
		err = inTime(c.Leaf, time.Now())
	}
	if err != nil {
		f.m.certUpdates.WithLabelValues("failed").Inc()
		f.log.Warn("the new certificate cannot be used; the old one stays", "err", err)
		return err
	}
	if slices.EqualFunc(c.Certificate, f.current.Load().Certificate, bytes.Equal) {
		return nil
	}
	f.use(c)
	f.m.certUpdates.WithLabelValues("ok").Inc()
	f.log.Info("a new certificate is in use", "not_after", c.Leaf.NotAfter)
	return nil
}

// run looks at the files every few seconds, and reads them when it is asked to.
func (f *certFiles) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		case answer := <-f.asked:
			answer <- f.read()
		}
	}
}

// reload lets run read the files now, whether or not they changed.
func (f *certFiles) reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case f.asked <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current.Load(), nil }

func (f *certFiles) covers(host string) bool {
	return f.current.Load().Leaf.VerifyHostname(host) == nil
}

func (f *certFiles) name() string {
	for _, n := range f.current.Load().Leaf.DNSNames {
		if n != "" && n[0] != '*' {
			return n
		}
	}
	return ""
}

func (f *certFiles) ok() error { return inTime(f.current.Load().Leaf, time.Now()) }
