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

	"allium/internal/filewatch"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// pollEvery is how often the files are looked at.
const pollEvery = time.Second

// Config names the files.
type Config struct {
	Files    []string // each has to be there
	Optional string   // a file that need not be there; empty: none
}

// Deps is what a List works with. Each may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// List is what is denied now. Its methods may be called from any goroutine.
type List struct {
	cfg   Config
	log   *slog.Logger
	m     *metrics
	now   atomic.Pointer[set] // nil until the files were read for the first time
	had   bool                // the optional file was there; of who reads alone
	files *filewatch.Files
}

// New reads the files and starts nothing. One that is missing, unless it is
// optional, or has a line that is no entry is bad_request.
func New(cfg Config, d Deps) (*List, error) {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	l := &List{cfg: cfg, log: d.Log, m: newMetrics(d.Metrics)}
	var err error
	l.files, err = filewatch.New(filewatch.Config{Files: l.names(), Every: pollEvery, Read: l.read, Failed: l.failed})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Run follows the files until ctx is done.
func (l *List) Run(ctx context.Context, ready func()) error { return l.files.Run(ctx, ready) }

// Reload lets Run read the files again now. When one cannot be taken, the list
// before stays in force and the error says why.
func (l *List) Reload(ctx context.Context) error { return l.files.Reload(ctx) }

// read takes over the files as they are, or says why it cannot.
func (l *List) read() error {
	s, err := l.parse()
	if err != nil {
		return err
	}
	before := l.now.Swap(s)
	if before != nil && s.equal(before) {
		return nil
	}
	l.m.entries.Set(float64(s.count()))
	if before != nil {
		l.m.reloads.WithLabelValues("ok").Inc()
		l.log.Info("the denylist was read again", "entries", s.count(), "before", before.count())
	}
	return nil
}

func (l *List) failed(err error) {
	l.m.reloads.WithLabelValues("failed").Inc()
	l.log.Warn("the denylist is not read again; the one before stays in force", "err", err)
}

func (l *List) names() []string {
	if l.cfg.Optional == "" {
		return l.cfg.Files
	}
	return append(slices.Clip(l.cfg.Files), l.cfg.Optional)
}

// parse reads the files. The optional one may be missing until it was there once:
// after that somebody is more likely replacing it.
func (l *List) parse() (*set, error) {
	s := &set{}
	for _, name := range l.names() {
		f, err := os.Open(name)
		if name == l.cfg.Optional && errors.Is(err, fs.ErrNotExist) && !l.had {
			continue
		}
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "denylist: %w; to deny nothing, empty the file", err)
		}
		err = errors.Join(s.parse(name, f), f.Close())
		if err != nil {
			return nil, err
		}
		if name == l.cfg.Optional {
			l.had = true
		}
	}
	s.sort()
	return s, nil
}

// At is the list as one part of the node asks it; where is a label of
// denied_total.
func (l *List) At(where string) View { return View{l: l, denied: l.m.denied.WithLabelValues(where)} }

// View asks a List. Its methods neither wait nor do I/O. What they return is
// denied, and does not say by which entry.
type View struct {
	l      *List
	denied prometheus.Counter
}

// Object says whether an object is denied.
func (v View) Object(root b3.Root) error {
	if !v.l.now.Load().object(root) {
		return nil
	}
	return v.deny(root)
}

// Path says whether root is denied, or what it has at a path or at one of the
// directories on the way. The path has no slash at its ends; "" is root itself.
func (v View) Path(root b3.Root, path string) error {
	if !v.l.now.Load().path(root, path) {
		return nil
	}
	return v.deny(root)
}

func (v View) deny(root b3.Root) error {
	v.denied.Inc()
	return status.Errorf(status.Denied, "%s is denied: this node's operator does not let it be served, fetched or stored here", root)
}
