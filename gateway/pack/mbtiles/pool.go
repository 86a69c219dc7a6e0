package mbtiles

import (
	"context"
	"errors"
	"slices"
	"sync"

	"modernc.org/sqlite/vfs"

	"allium/internal/limits"
)

// Pool is the open connections to SQLite of all archives. When all are open and an archive without one
// is read, the one that was idle for the longest is closed. Its methods may be called from any
// goroutine.
//
// Invariants: at most max connections are open; a connection is idle or runs one query; mu is not held
// while a connection is opened, used or closed.
type Pool struct {
	max   int
	gate  *limits.Gate // queries that run, at most max
	files *files
	start func() (*registered, error) // registers files with SQLite, once

	mu   sync.Mutex // guards open and idle; lock: leaf
	open int
	idle []*conn // the one that was used last at the end
}

// registered is a file system that SQLite knows.
type registered struct {
	name string
	fs   *vfs.FS
}

// NewPool returns an empty pool of at most 16 connections. Of further queries 512 wait for one, and the
// rest get busy. The caller closes it after all archives.
func NewPool(r *limits.Registry) *Pool { return newPool(r, maxConns) }

func newPool(r *limits.Registry, max int) *Pool {
	p := &Pool{max: max, files: &files{open: map[string]*file{}}}
	p.gate = r.NewGate(limits.Spec{
		Name: "gateway.pack.mbtiles", Path: "tiles of MBTiles packs → connections to SQLite",
		Policy: "wait, then 429 busy",
	}, int64(max), waiting)
	p.start = sync.OnceValues(func() (*registered, error) {
		if err := boundHeap(); err != nil {
			return nil, err
		}
		name, fs, err := vfs.New(p.files)
		return &registered{name, fs}, err
	})
	return p
}

// Close closes all idle connections. It fails while an archive is being read.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.open -= len(idle)
	p.mu.Unlock()
	if err := closeAll(idle); err != nil {
		return err
	}
	r, err := p.start() // it starts a pool that was never used, which is simpler than to remember it
	if err != nil {
		return err
	}
	return r.fs.Close()
}

// closeArchive closes the idle connections of a.
func (p *Pool) closeArchive(a *Archive) error {
	p.mu.Lock()
	var its []*conn
	p.idle = slices.DeleteFunc(p.idle, func(conn *conn) bool {
		if conn.archive == a {
			its = append(its, conn)
			return true
		}
		return false
	})
	p.open -= len(its)
	p.mu.Unlock()
	return closeAll(its)
}

func closeAll(conns []*conn) error {
	var errs []error
	for _, conn := range conns {
		errs = append(errs, conn.close())
	}
	return errors.Join(errs...)
}

// with calls f with a connection of a. It waits for one, and ctx bounds the wait.
func (p *Pool) with(ctx context.Context, a *Archive, f func(*conn) error) error {
	leaveArchive, err := a.gate.Acquire(ctx)
	if err != nil {
		return err
	}
	defer leaveArchive()
	leave, err := p.gate.Acquire(ctx)
	if err != nil {
		return err
	}
	defer leave()
	conn, err := p.take(ctx, a)
	if err != nil {
		return err
	}
	usable := false
	defer func() { p.give(conn, usable) }() // also when f panics
	err = f(conn)
	usable = !conn.failed
	return err
}

// take returns an idle connection of a, or a new one. The caller has a place of the gate.
func (p *Pool) take(ctx context.Context, a *Archive) (*conn, error) {
	own, victim := p.reserve(a)
	if own != nil {
		return own, nil
	}
	if victim != nil {
		if err := victim.close(); err != nil {
			p.lost()
			return nil, err
		}
	}
	conn, err := p.dial(ctx, a)
	if err != nil {
		p.lost()
	}
	return conn, err
}

// reserve returns an idle connection of a. Without one it counts one more as open, and returns the one
// that must be closed for that, if any.
func (p *Pool) reserve(a *Archive) (own, victim *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if p.idle[i].archive == a {
			own = p.idle[i]
			p.idle = slices.Delete(p.idle, i, i+1)
			return own, nil
		}
	}
	if p.open < p.max {
		p.open++
		return nil, nil
	}
	victim = p.idle[0] // fewer than max run, so one is idle
	p.idle = slices.Delete(p.idle, 0, 1)
	return nil, victim
}

// lost notes that a connection counted as open is none.
func (p *Pool) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// give makes a connection idle, or closes it if it is not usable any more.
func (p *Pool) give(conn *conn, usable bool) {
	if !usable {
		_ = conn.close() // its failure was returned
		p.lost()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, conn)
}
