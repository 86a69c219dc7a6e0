package denylist

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/filewatch"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

// pollEvery is the interval at which the files are checked for changes.
const pollEvery = time.Second

// Config names the files.
type Config struct {
	Files    []string // files that must exist
	Optional string   // a file that may be missing at first; empty: none
}

// Deps are the services that a List uses. Each may be nil.
type Deps struct {
	env.Env
}

// List holds the entries in force. It is safe for concurrent use.
type List struct {
	cfg          atomic.Pointer[Config]
	log          *slog.Logger
	m            *metrics
	current      atomic.Pointer[set] // the entries in force; nil until the files were read for the first time
	optionalRead bool                // the optional file was read once; only parse uses it
	files        *filewatch.Files
}

// New reads the files and starts no goroutine. It returns bad_request if a file other
// than Optional is missing, or if a line is malformed.
func New(cfg Config, d Deps) (*List, error) {
	d.Env.SetDefaults()
	l := &List{log: d.Log, m: newMetrics(d.Metrics)}
	l.cfg.Store(&cfg)
	var err error
	l.files, err = filewatch.New(filewatch.Config{
		Files: l.names, Every: d.Every(pollEvery), Read: l.read, Failed: l.failed,
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Run reads the files again when they change, until ctx is done.
func (l *List) Run(ctx context.Context, ready func()) error { return l.files.Run(ctx, ready) }

// Reconfigure names other files, which Run reads within seconds, or at the next Reload.
func (l *List) Reconfigure(cfg Config) { l.cfg.Store(&cfg) }

// Reload lets Run read the files again now. If a file cannot be read, the old list
// stays in force and Reload returns why.
func (l *List) Reload(ctx context.Context) error { return l.files.Reload(ctx) }

// read reads the files and puts their entries in force, or returns why it cannot.
func (l *List) read() error {
	s, err := l.parse()
	if err != nil {
		return err
	}
	before := l.current.Swap(s)
	if before != nil && s.equal(before) {
		return nil
	}
	l.m.entries.Set(float64(s.count()))
	if before != nil {
		l.m.reloads.WithLabelValues("ok").Inc()
		l.log.Info("a new denylist is in force", "entries", s.count(), "before", before.count())
	}
	return nil
}

// failed counts and logs a denylist that cannot be read again.
func (l *List) failed(err error) {
	l.m.reloads.WithLabelValues("failed").Inc()
	l.log.Warn("the new denylist cannot be read; the old one stays in force", "err", err)
}

// names returns the names of all files.
func (l *List) names() []string {
	cfg := l.cfg.Load()
	if cfg.Optional == "" {
		return cfg.Files
	}
	return append(slices.Clip(cfg.Files), cfg.Optional)
}

// parse reads the files into a new set. The optional file may be missing until it was
// read once. After that a missing file is an error: someone is probably replacing it.
func (l *List) parse() (*set, error) {
	s := &set{}
	for _, name := range l.names() {
		f, err := os.Open(name)
		if name == l.cfg.Load().Optional && errors.Is(err, fs.ErrNotExist) && !l.optionalRead {
			continue
		}
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "denylist: %w; to deny nothing, empty the file", err)
		}
		err = errors.Join(s.parse(name, f), f.Close())
		if err != nil {
			return nil, err
		}
		if name == l.cfg.Load().Optional {
			l.optionalRead = true
		}
	}
	s.sort()
	return s, nil
}

// At returns the view of one part of the node, which counts its denials. where is the
// label of denied_total.
func (l *List) At(where string) View { return View{l: l, denied: l.m.denied.WithLabelValues(where)} }

// View looks up addresses and names in a List. Its methods do no I/O and take no lock. Their
// errors have the outcome denied and do not name the entry.
type View struct {
	l      *List
	denied prometheus.Counter
}

// Object returns denied if an object is denied, otherwise nil.
func (v View) Object(root b3.Root) error {
	if !v.l.current.Load().object(root) {
		return nil
	}
	return v.deny(root)
}

// Path returns denied if root is denied, or the entry at a path below it, or a
// directory on the way there. The path neither begins nor ends with a slash. The path
// "" is root itself.
func (v View) Path(root b3.Root, path string) error {
	if !v.l.current.Load().path(root, path) {
		return nil
	}
	return v.deny(root)
}

// Name returns denied if a name is denied, or every name of its zone, otherwise nil.
func (v View) Name(n name.Name) error {
	if !v.l.current.Load().name(n) {
		return nil
	}
	v.denied.Inc()
	return status.Errorf(status.Denied,
		"%s is denied: this node's operator does not let it be resolved or published here", n)
}

// deny counts the denial of an object and returns its error.
func (v View) deny(root b3.Root) error {
	v.denied.Inc()
	return status.Errorf(status.Denied,
		"%s is denied: this node's operator does not let it be served, fetched or stored here", root)
}
