package node

import (
	"context"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Reloader reads a file of the node again. If the file cannot be read, Reload
// returns why, and what was read before stays in force.
type Reloader struct {
	Name   string // "denylist", "access", "capabilities", "certificate"
	Reload func(context.Context) error
}

// reloadDeadline bounds how long one file may take.
const reloadDeadline = 10 * time.Second

// reloaders are the files that a node can read again while it runs, in the order
// in which they were added. One reload runs at a time.
type reloaders struct {
	running chan struct{} // full while a reload runs

	mu  sync.Mutex // guards all
	all []Reloader
}

func newReloaders() *reloaders { return &reloaders{running: make(chan struct{}, 1)} }

// add appends a file.
func (r *reloaders) add(of Reloader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, of)
}

// run waits for a reload that is under way, then reads every file again. A file
// that fails does not keep run from the next.
func (r *reloaders) run(ctx context.Context) (api.Reloaded, error) {
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	case <-ctx.Done():
		return api.Reloaded{}, context.Cause(ctx)
	}
	r.mu.Lock()
	all := r.all[:len(r.all):len(r.all)]
	r.mu.Unlock()
	done := api.Reloaded{Files: []api.ReloadedFile{}}
	for _, of := range all {
		if err := context.Cause(ctx); err != nil {
			return done, err
		}
		file := api.ReloadedFile{Name: of.Name}
		if err := of.run(ctx); err != nil {
			rep := status.ReportOf(err)
			file.Error = &rep
		}
		done.Files = append(done.Files, file)
	}
	return done, nil
}

func (r Reloader) run(ctx context.Context) error {
	late := status.Errorf(status.Timeout, "reload: %s was not read within %s", r.Name, reloadDeadline)
	ctx, cancel := context.WithTimeoutCause(ctx, reloadDeadline, late)
	defer cancel()
	return r.Reload(ctx) // its error names the file
}

// Reload reads the node's files again. SIGHUP and the route /admin/reload call it.
func (n *Node) Reload(ctx context.Context) (api.Reloaded, error) {
	done, err := n.reloaders.run(ctx)
	for _, f := range done.Files {
		if f.Error != nil {
			n.log.Warn("a file was not reloaded; what was read of it before stays in force",
				"file", f.Name, "reason", f.Error.Reason, "err", f.Error.Message)
			continue
		}
		n.log.Info("reloaded", "file", f.Name)
	}
	return done, err
}
