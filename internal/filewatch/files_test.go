package filewatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"allium/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const every = time.Second

// reader takes over the text of a file; one that begins with "bad" is an error.
type reader struct {
	*Files
	name string
	hold chan struct{} // what Read waits for; nil: nothing

	mu    sync.Mutex
	now   string // in force
	reads int
	told  []string
	fail  error // of every Read
}

func (r *reader) Read() error {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.fail != nil {
		return r.fail
	}
	p, err := os.ReadFile(r.name)
	if err != nil {
		return err
	}
	if strings.HasPrefix(string(p), "bad") {
		return errors.New(string(p))
	}
	r.now = string(p)
	return nil
}

func (r *reader) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, err.Error())
}

// setFail makes every Read fail from now on, nil: as the file says.
func (r *reader) setFail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// state is what is in force, how often files were read, and what Failed was told
// since state was last asked.
func (r *reader) state() (now string, reads int, told string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, reads, told = r.now, r.reads, strings.Join(r.told, ", ")
	r.told = nil
	return now, reads, told
}

// polls lets Run look so often, and returns how often it read.
func (r *reader) polls(n int) int {
	count := func() int { r.mu.Lock(); defer r.mu.Unlock(); return r.reads }
	before := count()
	time.Sleep(time.Duration(n) * every)
	synctest.Wait()
	return count() - before
}

func try(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write gives the file a text and a time.
func write(t testing.TB, name, text string, at time.Time) {
	t.Helper()
	try(t, os.WriteFile(name, []byte(text), 0o600))
	try(t, os.Chtimes(name, at, at))
}

// long is before the time in bubbles, which begins with 2000: what was written
// then is not read twice.
var long = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

// follow makes a reader of a file with the text "one", in a bubble.
func follow(t *testing.T, name string) *reader {
	t.Helper()
	write(t, name, "one", long)
	r := &reader{name: name}
	var err error
	r.Files, err = New(Config{
		Files: func() []string { return []string{name, name + ".none"} }, Every: every, Hurry: every / 10,
		Read: r.Read, Failed: r.Failed,
	})
	try(t, err)
	return r
}

// run runs r until stop.
func (r *reader) run(t *testing.T) (stop func()) {
	t.Helper()
	return testkit.Start(t, r.Run)
}

// bubble runs test with a reader that runs.
func bubble(t *testing.T, test func(*testing.T, *reader)) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, name)
		defer r.run(t)()
		test(t, r)
	})
}

// TestChanges: whatever tells a file from what it was makes Run read it, once
// where it can.
func TestChanges(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(t *testing.T, name string){
		"its size":        func(t *testing.T, name string) { write(t, name, "three", long) },
		"its time":        func(t *testing.T, name string) { write(t, name, "one", long.Add(-1)) },
		"its permissions": func(t *testing.T, name string) { try(t, os.Chmod(name, 0o640)) },
		"another file with its size and time": func(t *testing.T, name string) {
			write(t, name+".new", "two", long)
			try(t, os.Rename(name+".new", name))
		},
		"it is gone":             func(t *testing.T, name string) { try(t, os.Remove(name)) },
		"one that was not there": func(t *testing.T, name string) { write(t, name+".none", "", long) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, r *reader) {
				if n := r.polls(10); n != 0 {
					t.Fatalf("it was read %d times without a change", n)
				}
				change(t, r.name)
				if n := r.polls(1); n != 1 {
					t.Errorf("it was read %d times", n)
				}
				if n := r.polls(10); n != 0 && what != "it is gone" {
					t.Errorf("and %d times more", n)
				}
			})
		})
	}
}

// TestWrittenJustNow: what has the same size and time as what was read a moment
// ago is read as well, and then no more.
func TestWrittenJustNow(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *reader) {
		at := time.Now()
		for i, text := range []string{"aaa", "bbb"} {
			write(t, r.name, text, at)
			n := r.polls(1)
			if now, _, _ := r.state(); n != 1 || now != text {
				t.Errorf("poll %d: read %d times, %q is in force", i, n, now)
			}
		}
		if n := r.polls(10); n != 0 {
			t.Errorf("it was read %d times without a change", n)
		}
	})
}

// TestCoarseClock: whatever is written when, on a file system that knows the
// time to two seconds, and in files of one size, it is in force after one poll.
func TestCoarseClock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	type step struct {
		pause time.Duration
		text  string
	}
	steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
		return step{
			time.Duration(rapid.IntRange(0, 3000).Draw(rt, "pause")) * time.Millisecond,
			rapid.SampledFrom([]string{"aaa", "bbb", "ccc", "bad"}).Draw(rt, "text"),
		}
	}), 1, 12)
	rapid.Check(t, func(rt *rapid.T) {
		plan := append(steps.Draw(rt, "steps"), step{0, "end"})
		var got string
		synctest.Test(t, func(t *testing.T) {
			r := follow(t, name)
			defer r.run(t)()
			for _, s := range plan {
				time.Sleep(s.pause)
				synctest.Wait()
				write(t, name, s.text, time.Now().Truncate(2*every))
			}
			r.polls(1)
			got, _, _ = r.state()
		})
		if got != "end" {
			rt.Errorf("%q is in force", got)
		}
	})
}

// TestFailures: what cannot be read leaves what was read before, is told when it
// changes and not at each try, and is tried again ever less often.
func TestFailures(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *reader) {
		told := func(want string) {
			t.Helper()
			if now, _, told := r.state(); now != "one" || told != want {
				t.Errorf("%q is in force, told %q, want %q", now, told, want)
			}
		}
		write(t, r.name, "bad a", long)
		r.polls(1)
		told("bad a")
		for _, pause := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			if pause > 1 {
				if n := r.polls(pause - 1); n != 0 {
					t.Fatalf("%d tries in %d polls", n, pause-1)
				}
			}
			if n := r.polls(1); n != 1 {
				t.Fatalf("%d tries after %d polls", n, pause)
			}
		}
		told("")
		write(t, r.name, "bad, too", long)
		r.polls(1)
		told("bad, too")
		if n := r.polls(1); n != 1 {
			t.Errorf("%d tries at the poll after a change", n)
		}
		write(t, r.name, "bad, too", time.Now()) // another change, and fresh
		r.polls(10)
		told("bad, too")
		for range 2 {
			if err := r.Reload(t.Context()); err == nil || err.Error() != "bad, too" {
				t.Errorf("%v", err)
			}
		}
		told("bad, too, bad, too")
		r.setFail(errors.New("another reason"))
		r.polls(60)
		told("another reason")
		write(t, r.name, "two", long)
		r.polls(60)
		told("another reason") // of a file that changed
		r.setFail(nil)
		r.polls(60)
		if now, _, told := r.state(); now != "two" || told != "" {
			t.Errorf("%q is in force when there is no reason any more; told %q", now, told)
		}
		write(t, r.name, "bad again", long)
		r.polls(1)
		if _, _, told := r.state(); told != "bad again" {
			t.Errorf("told %q", told)
		}
	})
}

// TestFirst: what cannot be read at first is the error of New, and nothing runs.
func TestFirst(t *testing.T) {
	t.Parallel()
	r := &reader{name: filepath.Join(t.TempDir(), "none")}
	_, err := New(Config{Files: func() []string { return []string{r.name} }, Every: every, Read: r.Read})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestReload reads what did not change, and who asks waits no longer than it
// wants to.
func TestReload(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, name)
		late := errors.New("late")
		short, cancel := context.WithTimeoutCause(t.Context(), every/2, late)
		defer cancel()
		if err := r.Reload(short); !errors.Is(err, late) {
			t.Errorf("nobody runs: %v", err)
		}
		stop := r.run(t)
		err := r.Reload(t.Context())
		if _, reads, _ := r.state(); err != nil || reads != 2 {
			t.Errorf("%v, %d reads", err, reads)
		}
		stop()
		r.hold = make(chan struct{})
		stop = r.run(t)
		short, cancel = context.WithTimeoutCause(t.Context(), every/2, late)
		defer cancel()
		if err := r.Reload(short); !errors.Is(err, late) {
			t.Errorf("it is being read: %v", err)
		}
		close(r.hold)
		stop()
	})
}

// TestLook looks at once, however many ask, but not again a moment later.
func TestLook(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *reader) {
		write(t, r.name, "three", long)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				err := r.Look(t.Context())
				if now, _, _ := r.state(); err != nil || now != "three" {
					t.Errorf("%v, %q is in force", err, now)
				}
			})
		}
		all.Wait()
		write(t, r.name, "bad", long)
		err := r.Look(t.Context())
		if _, reads, told := r.state(); err != nil || told != "" || reads != 2 {
			t.Errorf("it looked again: %v, %d reads, told %q", err, reads, told)
		}
		time.Sleep(every / 10)
		err = r.Look(t.Context())
		if now, _, told := r.state(); err == nil || told != "bad" || now != "three" {
			t.Errorf("it did not look again: %v, told %q", err, told)
		}
	})
}
