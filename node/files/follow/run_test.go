package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

func outcome(err error) string { return status.Of(err).String() }

// log is an Observer that notes each call as a line.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) Begun(t Target) { l.add(fmt.Sprint("begin ", t.Seq)) }

func (l *log) Done(t Target, s *Stats) {
	if s == nil {
		l.add(fmt.Sprint("same ", t.Seq))
		return
	}
	l.add(fmt.Sprintf("done %d, %d written", t.Seq, s.Written))
}

func (l *log) Failed(err error) { l.add("failed " + outcome(err)) }

func (l *log) took(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("%q, want %q", l.lines, want)
	}
	l.lines = nil
}

// runs follows what the returned function tells, until the test ends.
func runs(t *testing.T, d *Dir, s Source) (tell func(Target), l *log) {
	targets := make(chan Target)
	seq := iter.Seq[Target](func(yield func(Target) bool) {
		for t := range targets {
			if !yield(t) {
				return
			}
		}
	})
	l = &log{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := Run(ctx, d, s, seq, Options{MaxBytes: 1000}, l); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		close(targets)
		running.Wait()
	})
	return func(t Target) { targets <- t }, l
}

// TestRun: the directory follows the name; nothing is done twice; a name that says nothing changes
// nothing; what fails is tried again, and at once when the name is back.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, s := filepath.Join(t.TempDir(), "dir"), newSource()
		d := opens(t, dir, t.TempDir())
		tell, l := runs(t, d, s)
		one, two := s.add(t, version{"a": "one"}), s.add(t, version{"a": "two", "b": "b"})
		tell(Target{Key: one, Seq: 1})
		l.took(t, "begin 1", "done 1, 1 written")
		tell(Target{Key: one, Seq: 2})
		l.took(t, "same 2")
		tell(Target{Err: status.Errorf(status.Gone, "it was withdrawn")})
		l.took(t, "failed gone")
		isOnDisk(t, dir, version{"a": "one"})

		s.before =
			func(context.Context, int) error { return status.Errorf(status.TransportDown, "the network is down") }
		tell(Target{Key: two, Seq: 3})
		l.took(t, "begin 3", "failed transport_down")
		tell(Target{Key: two, Seq: 3}) // its TTL ended
		l.took(t)
		time.Sleep(2 * time.Second)
		l.took(t, "begin 3", "failed transport_down")
		tell(Target{Err: errors.New("no node is running")})
		s.before = nil
		l.took(t, "failed internal")
		tell(Target{Key: two, Seq: 3})
		l.took(t, "begin 3", "done 3, 2 written")
		time.Sleep(time.Hour)
		l.took(t)

		large := s.add(t, version{"a": strings.Repeat("x", 1000)})
		tell(Target{Key: large, Seq: 4})
		l.took(t, "begin 4", "failed body_cap")
		tell(Target{Key: large, Seq: 4})
		time.Sleep(time.Hour)
		l.took(t) // it stays too large
		tell(Target{Key: one, Seq: 5})
		l.took(t, "begin 5", "done 5, 1 written")
		isOnDisk(t, dir, version{"a": "one"})
	})
}

// TestSwapped: nothing of a version reaches the disk if there is a newer one before all of it is fetched;
// but a name that changes all the time is followed, too.
func TestSwapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, s := filepath.Join(t.TempDir(), "dir"), newSource()
		d := opens(t, dir, t.TempDir())
		tell, l := runs(t, d, s)
		goOn := make(chan struct{})
		s.before = func(ctx context.Context, n int) error {
			if n%2 == 0 { // the first file of each version arrives
				return nil
			}
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		key := func(n int) string {
			return s.add(t, version{"a": fmt.Sprint("a", n), "b": fmt.Sprint("b", n)})
		}
		for n := range maxAbandoned {
			tell(Target{Key: key(n), Seq: uint64(n)})
			l.took(t, fmt.Sprint("begin ", n))
			for p := range disk(t, dir) {
				if !strings.HasPrefix(p, stagingName) {
					t.Errorf("%s is there", p)
				}
			}
		}
		tell(Target{Key: key(8), Seq: 8})
		l.took(t, "begin 8")
		tell(Target{Key: key(9), Seq: 9})
		l.took(t)
		goOn <- struct{}{}
		l.took(t, "done 8, 2 written", "begin 9")
		tell(Target{Err: status.Errorf(status.Gone, "it was withdrawn")})
		l.took(t, "failed gone")
		on := disk(t, dir)
		for p, want := range map[string]string{"a": "a8", "b": "b8"} {
			if on[p] != want {
				t.Errorf("%s has %q", p, on[p])
			}
		}
	})
}
