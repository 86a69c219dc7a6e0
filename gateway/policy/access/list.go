package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/internal/env"
	"allium/internal/filewatch"
	"allium/internal/limits"
	"allium/protocols/status"
)

const (
	pollEvery = time.Second // interval at which the files are checked for changes
	closers   = 16          // connections closed at once; closing one takes seconds if its peer does not read
)

// Config names the files. Each must exist.
type Config struct {
	Allow []string // of listen.allow; none: everybody is allowed
	Deny  []string // of listen.deny
}

// Deps are the services that a List uses. Each may be nil.
type Deps struct {
	env.Env
}

// List has the entries in force. Its methods are safe for concurrent use.
type List struct {
	cfg     atomic.Pointer[Config]
	log     *slog.Logger
	m       *metrics
	current atomic.Pointer[rules] // never nil after New
	files   *filewatch.Files
	network atomic.Pointer[network.Network] // nil until Attach
	wake    chan struct{}                   // tells Run to look for connections to close
}

// New reads the files and starts no goroutine. It returns bad_request if a file is missing, or if a line
// is malformed.
func New(cfg Config, d Deps) (*List, error) {
	d.Env.SetDefaults()
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of listen.allow and listen.deny: %w", err)
	}
	l := &List{log: d.Log, m: m, wake: make(chan struct{}, 1)}
	l.cfg.Store(&cfg)
	l.files, err = filewatch.New(filewatch.Config{
		Files: l.names, Every: d.Every(pollEvery), Read: l.read, Failed: l.failed,
	})
	if err != nil {
		return nil, err
	}
	d.Limits.NewUsage(limits.Spec{
		Name: "listen.access", Path: "files of listen.allow and listen.deny → entries",
		Policy: "a file with more is refused, and what was read before stays in force",
	}, MaxEntries, func() int64 { return int64(l.current.Load().count()) })
	if r := l.current.Load(); r.allow != nil && r.allow.count() == 0 {
		l.log.Warn("the files of listen.allow are empty, so no peer is allowed", "files", cfg.Allow)
	}
	return l, nil
}

// Run reads the files again when they change and closes the connections of peers that are denied, until
// ctx is done.
func (l *List) Run(ctx context.Context, ready func()) error {
	var closing sync.WaitGroup
	closing.Go(func() { l.closeDenied(ctx) })
	defer closing.Wait()
	return l.files.Run(ctx, ready)
}

// names returns the names of all files.
func (l *List) names() []string {
	cfg := l.cfg.Load()
	return slices.Concat(cfg.Allow, cfg.Deny)
}

// Reconfigure names other files, which the next Reload reads.
func (l *List) Reconfigure(cfg Config) { l.cfg.Store(&cfg) }

// Reload lets Run read the files again now. If one cannot be read, what was read before stays in force,
// and Reload returns why.
func (l *List) Reload(ctx context.Context) error { return l.files.Reload(ctx) }

// Attach gives the list the node's network, whose connections it then closes when they are denied. The
// caller runs Run for as long as the network.
func (l *List) Attach(n network.Network) {
	l.network.Store(&n)
	n.Notify(&network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		// The set may have changed between the handshake and now.
		if l.current.Load().deniedAt(c.RemotePeer(), placeOf(c.RemoteMultiaddr())) {
			l.look()
		}
	}})
	l.look()
}

// look makes Run look for connections to close.
func (l *List) look() {
	select {
	case l.wake <- struct{}{}:
	default: // Run will look
	}
}

// read reads the files and puts their entries in force, or returns why it cannot.
func (l *List) read() error {
	r, err := l.parse()
	if err != nil {
		return err
	}
	before := l.current.Swap(r)
	if before != nil && r.equal(before) {
		return nil
	}
	l.m.entries.Set(float64(r.count()))
	if before != nil {
		l.m.reloads.WithLabelValues("ok").Inc()
		l.log.Info("new lists of allowed and denied peers are in force", "entries", r.count(), "before", before.count())
		l.look()
	}
	return nil
}

// failed counts and logs files that cannot be read again.
func (l *List) failed(err error) {
	l.m.reloads.WithLabelValues("failed").Inc()
	l.log.Warn("the files of listen.allow and listen.deny cannot be read; what was read before stays in force", "err",
		err)
}

// parse reads all files.
func (l *List) parse() (*rules, error) {
	cfg, r := l.cfg.Load(), &rules{deny: newSet()}
	if len(cfg.Allow) > 0 {
		r.allow = newSet()
	}
	left := bounds{MaxEntries, MaxBytes}
	for _, part := range []struct {
		key   string
		files []string
		into  *set
	}{{"listen.allow", cfg.Allow, r.allow}, {"listen.deny", cfg.Deny, r.deny}} {
		for _, name := range part.files {
			info, err := os.Stat(name) // opening a pipe would block
			if err == nil && !info.Mode().IsRegular() {
				err = fmt.Errorf("%s is not a regular file", name)
			}
			var f *os.File
			if err == nil {
				f, err = os.Open(name)
			}
			if err != nil {
				return nil, status.Errorf(status.BadRequest,
					"%s: %w; write the file, or take its name out", part.key, err)
			}
			left, err = parse(part.key, name, f, left, part.into)
			if err = errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// closeDenied closes the connections of denied peers at each call of look, until ctx is done.
func (l *List) closeDenied(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		n := l.network.Load()
		if n == nil {
			continue // Attach looks again
		}
		var closing errgroup.Group
		closing.SetLimit(closers)
		for _, c := range (*n).Conns() {
			if l.current.Load().deniedAt(c.RemotePeer(), placeOf(c.RemoteMultiaddr())) {
				l.count(whereOpen)
				l.log.Info("a connection is closed: its peer is denied now", "peer", c.RemotePeer(),
					"addr", c.RemoteMultiaddr())
				closing.Go(func() error {
					_ = c.CloseWithError(network.ConnGated) // it is closed despite an error
					return nil
				})
			}
		}
		_ = closing.Wait() // the functions return nil
	}
}

// Denied reports whether the peer is denied wherever it is. Records, hints and gossip from such a peer are ignored. A
// peer that is allowed or denied by its address is not denied everywhere.
func (l *List) Denied(id peer.ID) bool {
	if l.current.Load().denied(id) {
		l.count(whereSaid)
		return true
	}
	return false
}

func (l *List) count(where string) { l.m.denied.WithLabelValues(where).Inc() }
