package node

import (
	"context"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Reloader reads one of the node's files again. What it cannot read it leaves as
// it was, and says why.
type Reloader struct {
	Name   string // "denylist", "capabilities", "certificate"
	Reload func(context.Context) error
}

// reloadDeadline bounds how long one file may take.
const reloadDeadline = 10 * time.Second

// reloaders are the files of a node that can be read again while it runs, in the
// order they were named. One reload runs at a time.
type reloaders struct {
	turn chan struct{} // holds one

	mu  sync.Mutex
	all []Reloader
}

func newReloaders() *reloaders { return &reloaders{turn: make(chan struct{}, 1)} }

// add names a file.
func (r *reloaders) add(of Reloader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, of)
}

// run reads every file again, also after one failed.
func (r *reloaders) run(ctx context.Context) (api.Reloaded, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
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
	ctx, cancel := context.WithTimeoutCause(ctx, reloadDeadline, status.Errorf(status.Timeout, "reload: %s was not read within %s", r.Name, reloadDeadline))
	defer cancel()
	return r.Reload(ctx) // which names the file
}

// Reload reads the node's files again: SIGHUP and /admin/reload.
func (n *Node) Reload(ctx context.Context) (api.Reloaded, error) {
	done, err := n.reloaders.run(ctx)
	for _, f := range done.Files {
		if f.Error != nil {
			n.log.Warn("a file was not reloaded; what was read of it before stays in force", "file", f.Name, "reason", f.Error.Reason, "err", f.Error.Message)
			continue
		}
		n.log.Info("reloaded", "file", f.Name)
	}
	return done, err
}
