package audit

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"allium/internal/ballast"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// fullFile is a file on a disk that has room for so many writes.
type fullFile struct {
	file
	room func() bool
}

func (f fullFile) Write(p []byte) (int, error) {
	if !f.room() {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, &os.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC}
	}
	return f.file.Write(p)
}

// TestFullDisk: on a full disk what gives space back is recorded as long as the
// ballast lasts, and nothing else; the log stays whole, and everything is
// recorded when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := New(DefaultConfig(), dir, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var full atomic.Bool
	var used atomic.Int64 // bytes of the ballast whose room is used up
	l.disk.open = func(name string) (file, error) {
		f, err := openAppend(name)
		return fullFile{f, func() bool {
			if !full.Load() {
				return true
			}
			given := l.disk.ballast.Released()
			return used.Swap(given) != given // one write for each file of it
		}}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	if l.disk.ballast.Bytes() != ballastSize {
		t.Fatalf("the ballast has %d bytes", l.disk.ballast.Bytes())
	}
	mutate := func(e Event, want status.Outcome) {
		t.Helper()
		if _, err := l.Mutation(t.Context(), e); status.Of(err) != want {
			t.Errorf("outcome %s (%v), want %s", status.Of(err), err, want)
		}
	}
	mutate(Event{Op: "put"}, status.OK)
	full.Store(true)
	mutate(Event{Op: "put"}, status.NoSpace)
	for range ballastSize / ballast.Step {
		mutate(Event{Op: "unpin", Frees: true}, status.OK)
		mutate(Event{Op: "put"}, status.NoSpace)
	}
	mutate(Event{Op: "unpin", Frees: true}, status.NoSpace) // it is used up
	full.Store(false)
	mutate(Event{Op: "unpin", Frees: true}, status.OK)
	mutate(Event{Op: "put"}, status.OK)
	cancel()
	wg.Wait()
	r, err := verify(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if names, err := os.ReadDir(filepath.Join(dir, ballastDir)); err != nil || len(names) != 0 {
		t.Errorf("%d files of the ballast are left, %v", len(names), err)
	}
}

// TestStartsWithoutSpace: a log that cannot be written refuses mutations and
// stops nothing; it is opened when it can be.
func TestStartsWithoutSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for errno, want := range map[syscall.Errno]status.Outcome{
		syscall.ENOSPC: status.NoSpace, syscall.EROFS: status.NotReady,
	} {
		var broken atomic.Bool
		broken.Store(true)
		l, err := New(DefaultConfig(), dir, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		l.disk.open = func(name string) (file, error) {
			if broken.Load() {
				return nil, &os.PathError{Op: "open", Path: name, Err: errno}
			}
			return openAppend(name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ready := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := l.Run(ctx, func() { close(ready) }); err != nil {
				t.Error(err)
			}
		})
		<-ready
		if _, err := l.Mutation(t.Context(), Event{}); status.Of(err) != want || l.Err() == nil {
			t.Errorf("%s: a mutation without a record: %v", errno, err)
		}
		broken.Store(false)
		testkit.Eventually(t, "the log is opened again", func() bool { return l.Err() == nil })
		if _, err := l.Mutation(t.Context(), Event{}); err != nil {
			t.Error(err)
		}
		cancel()
		wg.Wait()
	}
	if _, err := verify(t, dir); err != nil {
		t.Error(err)
	}
}
