package reload

import (
	"context"
	"time"

	"allium/internal/guard"
	"allium/protocols/status"
)

// File is a file beside the configuration that a node can read again while it runs.
type File struct {
	Name string // "denylist", "access", "capabilities", "certificate"
	// Reload reads it again. If it returns an error, which names the file, what was read before stays in force.
	Reload func(context.Context) error
}

// The deadlines of a task.
const (
	taskDeadline = 10 * time.Second
	taskGrace    = 100 * time.Millisecond // to end after the deadline, before the task counts as stuck
)

// Add appends a file. Reloads that begin after that read it.
func (s *Service) Add(f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
}

// added lists the files.
func (s *Service) added() []File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[:len(s.files):len(s.files)]
}

// readFiles runs the tasks of files, which begin after the first. One that fails does not keep it from the next.
func (s *Service) readFiles(ctx context.Context, rec *record, files []File) {
	rec.add(files...)
	defer rec.keep()
	of := rec.get()
	for i, f := range files {
		if s.life.drains() {
			return
		}
		_, err := run(ctx, s, rec, i+1, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, f.Reload(ctx)
		})
		switch {
		case of.DryRun:
		case err != nil:
			rep := status.ReportOf(err)
			s.deps.Log.Warn("a file was not reloaded; what was read of it before stays in force",
				"token", of.Token, "file", f.Name, "reason", rep.Reason, "err", rep.Message)
		default:
			s.deps.Log.Info("reloaded", "token", of.Token, "file", f.Name)
		}
	}
}

// run runs a task of a reload within its deadline, and returns its result. A task that does not end in time is stuck:
// it runs on, no reload begins it again before it has ended, and run returns timeout.
func run[T any](
	ctx context.Context, s *Service, rec *record, task int, f func(context.Context) (T, error),
) (result T, err error) {
	of := rec.get()
	name := of.Tasks[task].Name
	if of.DryRun {
		name = "check " + name // which is another thing than to read it
	}
	rec.start(task)
	if !s.records.enter(name) {
		err = status.Errorf(status.Busy, "%s is stuck since an earlier reload. Look why it cannot be read", name)
		rec.end(task, err)
		return result, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, taskDeadline,
		status.Errorf(status.Timeout, "%s was not read within %s", name, taskDeadline))
	type ending struct {
		result T
		err    error
	}
	done := make(chan ending, 1)
	s.life.work.Go(func() {
		defer cancel()
		var e ending
		e.err = guard.Run(func() (err error) {
			e.result, err = f(ctx)
			return err
		})
		s.records.leave(name)
		rec.end(task, e.err)
		done <- e
	})
	select {
	case e := <-done:
		return e.result, e.err
	case <-ctx.Done(): // or it has ended
	}
	late := time.NewTimer(taskGrace)
	defer late.Stop()
	select {
	case e := <-done:
		return e.result, e.err
	case <-late.C:
	}
	err = context.Cause(ctx)
	if rec.stick(task, err) {
		s.deps.Log.Warn("a task of a reload is stuck; the reload goes on without it",
			"token", of.Token, "task", name, "err", err)
	}
	return result, err
}
