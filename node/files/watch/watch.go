package watch

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options holds the settings and the callbacks of [Run].
type Options struct {
	Timing
	// Work is called for changes. It reads the file or directory as it is now, and reports whether it
	// found anything to do; the next work waits for Timing.Gap only then. After an error it is called
	// again, after a [Postponed] at its time.
	Work func(ctx context.Context) (worked bool, err error)
	// Polling is called once when the kernel cannot tell of changes, and why; the tree is looked at
	// every few seconds from then on. nil: nobody is told.
	Polling func(err error)
}

// Postponed is the error of work that is to be done at a later time, and has not failed.
type Postponed struct{ Until time.Time }

// Error says until when.
func (p Postponed) Error() string { return "postponed until " + p.Until.Format(time.TimeOnly) }

// Run calls work at once, and again whenever the file or directory has changed, until ctx ends. It
// returns after the last work has ended, with the error of ctx.
func Run(ctx context.Context, path string, o Options) error {
	w, err := newWatcher(path, o)
	if err != nil {
		return err
	}
	return w.run(ctx, o.Work)
}

// newWatcher returns a watcher that does not watch anything yet.
func newWatcher(path string, o Options) (*watcher, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	w := &watcher{path: path, polling: o.Polling, schedule: schedule{Timing: o.Timing}}
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		w.poll(err)
	}
	return w, nil
}

// run calls work as [Run] does, and closes the watcher.
func (w *watcher) run(ctx context.Context, work func(context.Context) (bool, error)) error {
	defer w.close()
	var working sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer working.Wait()
	defer cancel()
	w.changed(time.Now())
	w.notBefore = time.Now() // the first work does not wait for quiet
	w.first = w.first.Add(-w.Latest)
	type outcome struct {
		worked bool
		err    error
	}
	done := make(chan outcome, 1) // bound: the one piece of work that runs
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		if at, ok := w.next(); ok && !at.After(now) {
			w.begin()
			w.refresh() // before work reads the tree, so that no change falls between
			working.Go(func() {
				worked, err := work(ctx)
				done <- outcome{worked, err}
			})
		} else {
			timer.Reset(w.wait(now))
		}
		select {
		case e := <-w.events():
			if w.inside(e.Name) {
				w.changed(time.Now())
			}
		case err := <-w.errors():
			if err != nil { // events were lost, or a directory cannot be watched any more
				w.changed(time.Now())
			}
		case d := <-done:
			var later Postponed
			if errors.As(d.err, &later) {
				w.postpone(time.Now(), later.Until)
			} else {
				w.end(time.Now(), d.worked, d.err != nil)
			}
		case <-timer.C:
			w.look(time.Now())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watcher watches one file or directory. One goroutine uses it.
type watcher struct {
	schedule
	path    string            // as it was given, absolute
	real    string            // the same without links
	notify  *fsnotify.Watcher // nil: the tree is looked at from time to time
	polling func(error)

	lookAt time.Time     // without notify: when the tree is looked at next
	seen   fingerprint   // what it looked like
	every  time.Duration // between two looks
}

// idle bounds the wait of the loop when there is nothing to do.
const idle = time.Hour

// wait returns how long the loop waits for an event.
func (w *watcher) wait(now time.Time) time.Duration {
	wait := idle
	if at, ok := w.next(); ok {
		wait = at.Sub(now)
	}
	if w.notify == nil {
		wait = min(wait, w.lookAt.Sub(now))
	}
	return max(wait, 0)
}

func (w *watcher) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

func (w *watcher) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// inside reports whether an event is about the watched file or directory. The directory that it is
// in is watched as well.
func (w *watcher) inside(name string) bool {
	for _, top := range []string{w.path, w.real} {
		if rel, err := filepath.Rel(top, name); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// refresh watches every directory of the tree, also those that are new, and the directory that the
// tree is in. That which cannot be found is left out: what removed it is a change, too.
func (w *watcher) refresh() {
	if w.notify == nil {
		return
	}
	add := func(dir string) error {
		if err := w.notify.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) &&
			!errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil
	}
	w.find()
	err := add(filepath.Dir(w.path))
	if err == nil {
		err = filepath.WalkDir(w.real, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return add(name)
			}
			return nil // a directory that cannot be read is refused by the work
		})
	}
	if err != nil {
		w.poll(err)
	}
}

// find resolves the watched path: if it is a link, the watcher watches its target.
func (w *watcher) find() {
	w.real = w.path
	if real, err := filepath.EvalSymlinks(w.path); err == nil {
		w.real = real
	}
}

// poll gives the kernel's events up.
func (w *watcher) poll(err error) {
	w.close()
	w.every = shortestLook
	w.lookAt = time.Now().Add(w.every)
	w.find()
	w.seen = take(w.real)
	if w.polling != nil {
		w.polling(err)
	}
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close() // nothing was written to it
		w.notify = nil
	}
}

// Bounds of the time between two looks at a tree. In between a look takes at most a twentieth of
// the time.
const (
	shortestLook = 2 * time.Second
	longestLook  = 5 * time.Minute
)

// look looks at the tree if it is time for that.
func (w *watcher) look(now time.Time) {
	if w.notify != nil || now.Before(w.lookAt) {
		return
	}
	w.find()
	seen := take(w.real)
	took := time.Since(now)
	if seen != w.seen {
		w.seen = seen
		w.changed(now)
	}
	w.every = min(max(20*took, shortestLook), longestLook)
	w.lookAt = now.Add(w.every)
}
