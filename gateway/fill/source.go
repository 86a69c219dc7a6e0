package fill

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"allium/gateway/fill/origin"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// source is a source of the configuration. It never changes.
type source struct {
	name     string
	cfg      Source
	identity b3.Root        // of the origin, for the keys of records
	client   *origin.Client // nil: the source is a directory, or the node is offline
	life     *origin.Life   // ends with errOffline when the node goes offline; nil: the node is offline
}

// offline reports whether the source is one of origins that are not asked.
func (s *source) offline() bool { return s.client == nil && s.cfg.Key == "" }

// newSource returns a source of a configuration. It reads the certificates of the authorities; nothing is looked up or
// connected to.
func newSource(name string, edge *live, d Deps, m *metrics) (*source, error) {
	cfg := edge.Sources[name]
	s := &source{name: name, cfg: cfg, life: edge.life}
	urls := cfg.Origins()
	s.identity = b3.Sum([]byte(name + "\x00" + strings.Join(urls, "\x00")))
	switch {
	case cfg.Manifest != "" && d.Manifests == nil:
		return nil, errors.New("live fill needs Deps.Manifests for a source with a manifest")
	case cfg.Key != "" || edge.Mode == Offline:
		return s, nil
	}
	roots, err := authorities(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("edge.sources.%s.ca_file: %w", name, err)
	}
	s.client, err = origin.New(origin.Config{
		Source: name, URLs: urls, Private: cfg.Private, PlainHTTP: cfg.Manifest != "", Roots: roots,
		MaxBytes: int64(edge.FillBytes), UserAgent: d.UserAgent, Params: d.Params.Origin,
	}, origin.Deps{
		Life: edge.life, Resolver: d.Resolver, Retried: m.retries.Inc, TimedOut: m.timeouts.Inc,
		Refused: func() {
			d.Log.Warn("the origin of a source failed too often; it is asked again after a pause", "source", name)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("edge.sources.%s: %w", name, err)
	}
	return s, nil
}

// maxAuthorities bounds the bytes of a ca_file.
const maxAuthorities = 1 << 20

// authorities returns the certificates of a PEM file, or nil for those of the machine.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxAuthorities {
		return nil, fmt.Errorf("%s is no file of certificates", file)
	}
	p, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return roots, nil
}

// request returns the request for a path. old, which may be nil, is the record of a copy that the store has.
func (s *source) request(path string, old *record) origin.Request {
	r := origin.Request{Path: path, Proved: s.cfg.Manifest != ""}
	if old != nil {
		r.ETag = old.etag
		if s.cfg.RequireETag == ETagDate || s.cfg.RequireETag == ETagAny {
			r.LastModified = old.lastModified
		}
	}
	return r
}

// check returns etag_invalid if an answer cannot be validated later as require_etag says.
func (s *source) check(a *origin.Answer) error {
	switch {
	case s.cfg.Manifest != "", s.cfg.RequireETag == ETagAny, a.ETag != "":
		return nil
	case s.cfg.RequireETag != ETagDate:
		return status.Errorf(status.EtagInvalid, "cannot fill from the source %s: the origin sends no strong ETag. "+
			"Set require_etag of the source to date or any if you accept that", s.name)
	case a.LastModified == "":
		return status.Errorf(status.EtagInvalid, "cannot fill from the source %s: the origin sends neither a strong "+
			"ETag nor Last-Modified. Set require_etag of the source to any if you accept that", s.name)
	}
	return nil
}

// recordOf returns the record of an answer that became root.
func (c Config) recordOf(a *origin.Answer, root b3.Root, size int64, now time.Time) *record {
	return &record{root: root, size: size, etag: a.ETag, lastModified: a.LastModified, fetched: now,
		freshUntil: now.Add(c.keep(a)), strict: a.Strict}
}

// keep returns how long an answer is fresh: for as long as the origin says, within MinFresh and MaxFresh.
func (c Config) keep(a *origin.Answer) time.Duration {
	return max(c.MinFresh, min(a.MaxAge, c.MaxFresh))
}
