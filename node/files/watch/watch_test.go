package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"allium/internal/testkit"
)

// quick is a timing for tests with real files.
var quick = Timing{
	Quiet: 5 * time.Millisecond, Latest: 50 * time.Millisecond, Gap: time.Millisecond, Retry: time.Millisecond,
	Slow: 10 * time.Millisecond,
}

// runs is a Run under way, whose work takes the fingerprint of the tree.
type runs struct {
	mu      sync.Mutex
	works   int
	running int
	seen    fingerprint
	fail    error
}

// begin starts Run on a path; the test's end stops it.
func begin(t *testing.T, path string) *runs {
	t.Helper()
	r, _ := beginWith(t, path, nil)
	return r
}

// beginWith starts Run on a path with a function to be told of polling, and returns what watches it, too.
func beginWith(t *testing.T, path string, polling func(error)) (*runs, *fsnotify.Watcher) {
	t.Helper()
	r := &runs{}
	w, err := newWatcher(path, Options{Timing: quick, Polling: polling})
	must(t, err)
	notify := w.notify
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := w.run(ctx, func(context.Context) (bool, error) { return true, r.work(t, path) })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	r.await(t, path)
	return r, notify
}

func (r *runs) work(t *testing.T, path string) error {
	r.mu.Lock()
	r.works++
	if r.running++; r.running > 1 {
		t.Error("two pieces of work run at a time")
	}
	r.mu.Unlock()
	seen := take(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.seen = seen
	return r.fail
}

// await waits until the last work saw what is there now.
func (r *runs) await(t *testing.T, path string) {
	t.Helper()
	testkit.Eventually(t, "work after the change", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.works > 0 && r.seen == take(path)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunDirectory: every kind of change is followed by work that sees it, below new directories,
// too, and after the directory itself was replaced.
func TestRunDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	must(t, os.MkdirAll(filepath.Join(dir, "a"), 0o755))
	r := begin(t, dir)
	file := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, change := range []func(){
		func() { must(t, os.WriteFile(file("one"), []byte("1"), 0o600)) },
		func() { must(t, os.WriteFile(file("a/two"), []byte("2"), 0o600)) },
		func() { must(t, os.MkdirAll(file("new/below/deep"), 0o755)) },
		func() { must(t, os.WriteFile(file("new/below/deep/three"), []byte("3"), 0o600)) },
		func() { must(t, os.Chmod(file("one"), 0o700)) },
		func() { must(t, os.Rename(file("new"), file("moved"))) },
		func() { must(t, os.WriteFile(file("moved/below/deep/four"), []byte("4"), 0o600)) },
		func() { must(t, os.RemoveAll(file("a"))) },
		func() { must(t, os.WriteFile(file("a"), []byte("a file now"), 0o600)) },
		func() { must(t, os.Rename(dir, dir+".old")); must(t, os.Mkdir(dir, 0o755)) },
		func() { must(t, os.WriteFile(file("again"), []byte("x"), 0o600)) },
	} {
		change()
		r.await(t, dir)
	}
}

// TestRunFile: a file that an editor replaces is noticed.
func TestRunFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "notes")
	must(t, os.WriteFile(name, []byte("1"), 0o600))
	r := begin(t, name)
	for _, text := range []string{"two", "three"} {
		must(t, os.WriteFile(name+"~", []byte(text), 0o600))
		must(t, os.Rename(name+"~", name))
		r.await(t, name)
	}
}

// TestRunFails: work that fails is done again.
func TestRunFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := begin(t, dir)
	r.mu.Lock()
	r.fail = errors.New("no node is running")
	before := r.works
	r.mu.Unlock()
	must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	testkit.Eventually(t, "work again", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.works > before+3
	})
}

// TestPostponed: postponed work is done at its time, and not before for a change meanwhile.
func TestPostponed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var works []time.Duration
		w := &watcher{path: dir, schedule: schedule{Timing: timing}}
		w.poll(syscall.ENOSPC)
		ctx, cancel := context.WithCancel(t.Context())
		err := w.run(ctx, func(context.Context) (bool, error) {
			works = append(works, time.Since(begun))
			if len(works) == 1 {
				must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
				return false, Postponed{begun.Add(7 * time.Second)}
			}
			cancel()
			return true, nil
		})
		if !errors.Is(err, context.Canceled) || !slices.Equal(works, []time.Duration{0, 7 * time.Second}) {
			t.Errorf("%v, works after %v", err, works)
		}
	})
}

// TestPolling: without events of the kernel the tree is looked at every two seconds, and the caller
// is told once.
func TestPolling(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		w := &watcher{path: dir, schedule: schedule{Timing: timing}, polling: func(err error) {
			if told++; !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
		}}
		w.poll(syscall.ENOSPC)
		w.refresh()
		for i := range 3 {
			time.Sleep(w.wait(time.Now()))
			w.look(time.Now())
			if _, ok := w.next(); ok {
				t.Fatal("work begins without a change")
			}
			must(t, os.WriteFile(filepath.Join(dir, "x"), make([]byte, i+1), 0o600))
			time.Sleep(w.wait(time.Now()))
			w.look(time.Now())
			if _, ok := w.next(); !ok {
				t.Fatal("a change was not seen")
			}
			w.begin()
			w.end(time.Now(), true, false)
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

// TestLostEvents: when events were lost, work looks at the whole tree, and what was not watched any more
// is watched again.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	below := filepath.Join(dir, "a")
	must(t, os.Mkdir(below, 0o755))
	r, notify := beginWith(t, dir, func(err error) { t.Error("polling:", err) })
	for i := range 3 {
		testkit.Eventually(t, "the directory to be watched again", func() bool {
			return slices.Contains(notify.WatchList(), below)
		})
		must(t, notify.Remove(below)) // the kernel tells nobody of what is in it
		must(t, os.WriteFile(filepath.Join(below, "x"), make([]byte, i+1), 0o600))
		notify.Errors <- fsnotify.ErrEventOverflow
		r.await(t, dir)
	}
}
