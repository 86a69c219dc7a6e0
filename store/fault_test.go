package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// fault fails matching operations of a file system while it is on.
type fault struct {
	on    atomic.Bool
	err   error
	kinds []errorfs.OpKind
	path  string // part of it
	hits  atomic.Int64
}

func (f *fault) String() string { return f.path }

// MaybeError implements errorfs.Injector.
func (f *fault) MaybeError(op errorfs.Op) error {
	if !f.on.Load() || !strings.Contains(op.Path, f.path) {
		return nil
	}
	for _, k := range f.kinds {
		if op.Kind == k {
			f.hits.Add(1)
			return f.err
		}
	}
	return nil
}

// faulty starts a store on a file system with a fault, still off, and an object
// of each kind.
func faulty(t *testing.T, f *fault) (s *store.Store, stop func() error, disk *vfs.MemFS, kept [][]byte) {
	t.Helper()
	disk = vfs.NewMem()
	s, stop = storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, f)})
	kept = [][]byte{storetest.Bytes(1, 100), storetest.Bytes(2, 3*b3.GroupSize)}
	for _, p := range kept {
		storetest.Put(t, s, p)
	}
	return s, stop, disk, kept
}

var (
	smallPut = storetest.Bytes(11, 5000)
	largePut = storetest.Bytes(12, 5*b3.GroupSize)
)

// TestWriteFaults: a write, sync or rename that fails gives a typed error,
// leaves what is there readable, and, unless what is on disk is unknown, the
// next put succeeds once the disk is well.
func TestWriteFaults(t *testing.T) {
	t.Parallel()
	write, sync := []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt},
		[]errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}
	for _, test := range []struct {
		name   string
		fault  *fault
		put    []byte
		want   status.Outcome
		sticky bool
	}{
		{"segment full", &fault{err: syscall.ENOSPC, kinds: write, path: "/seg/"}, smallPut, status.NoSpace, false},
		{"segment write", &fault{err: syscall.EIO, kinds: write, path: "/seg/"}, smallPut, status.NotReady, false},
		{"segment sync", &fault{err: syscall.EIO, kinds: sync, path: "/seg/"}, smallPut, status.NotReady, true},
		{"file full", &fault{err: syscall.ENOSPC, kinds: write, path: "/tmp/"}, largePut, status.NoSpace, false},
		{"file write", &fault{err: syscall.EIO, kinds: write, path: "/tmp/"}, largePut, status.NotReady, false},
		{"file create", &fault{err: syscall.ENOSPC, kinds: []errorfs.OpKind{errorfs.OpCreate}, path: "/tmp/"}, largePut,
			status.NoSpace, false},
		{"file sync", &fault{err: syscall.EIO, kinds: sync, path: "/tmp/"}, largePut, status.NotReady, false},
		{"outboard write", &fault{err: syscall.ENOSPC, kinds: write, path: ".ob"}, largePut, status.NoSpace, false},
		{"rename", &fault{err: syscall.ENOSPC, kinds: []errorfs.OpKind{errorfs.OpRename}, path: "/tmp/"}, largePut,
			status.NoSpace, false},
		{"directory sync", &fault{err: syscall.EIO, kinds: sync, path: "/obj/"}, largePut, status.NotReady, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := test.fault
			s, stop, disk, kept := faulty(t, f)
			f.on.Store(true)
			for range 2 {
				_, err := s.Put(t.Context(), bytes.NewReader(test.put), store.PutOptions{})
				storetest.Want(t, err, test.want)
				if !errors.Is(err, f.err) {
					t.Errorf("the cause is lost: %v", err)
				}
			}
			if f.hits.Load() == 0 {
				t.Fatal("the fault was not met")
			}
			f.on.Store(false)
			for _, p := range kept {
				storetest.Holds(t, s, p)
			}
			_, err := s.Open(t.Context(), b3.Sum(test.put))
			storetest.Want(t, err, status.NotFound)
			if got := s.Stats().WriteErr != nil; got != test.sticky {
				t.Errorf("sticky is %t", got)
			}
			if !test.sticky {
				storetest.Put(t, s, test.put)
				storetest.Holds(t, s, test.put)
			}
			if err := stop(); (err != nil) != test.sticky {
				t.Errorf("stop says %v", err)
			}
			s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
			for _, p := range kept {
				storetest.Holds(t, s, p)
			}
			if err := tidy(disk, s); err != nil {
				t.Error(err)
			}
			storetest.Put(t, s, test.put)
			storetest.Holds(t, s, test.put)
		})
	}
}

// TestDeferredSurvivesFullDisk: what could not be written when it was deferred
// is written by the flush after space was made; until then puts say no_space
// instead of waiting.
func TestDeferredSurvivesFullDisk(t *testing.T) {
	t.Parallel()
	f := &fault{err: syscall.ENOSPC, kinds: []errorfs.OpKind{errorfs.OpFileWriteAt}, path: "/seg/"}
	s, _, _, _ := faulty(t, f)
	f.on.Store(true)
	var accepted [][]byte
	refused := 0
	for i := range 100 { // more than the budget holds
		p := storetest.Bytes(uint64(100+i), 20_000)
		_, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true})
		if err == nil {
			accepted = append(accepted, p)
			continue
		}
		storetest.Want(t, err, status.NoSpace)
		refused++
	}
	if refused == 0 || len(accepted) == 0 {
		t.Fatalf("%d accepted, %d refused", len(accepted), refused)
	}
	storetest.Want(t, s.Flush(t.Context()), status.NoSpace)
	f.on.Store(false)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range accepted {
		storetest.Holds(t, s, p)
	}
}

// TestLostDeferred: a deferred object whose sync failed is lost, and no flush
// ever says otherwise.
func TestLostDeferred(t *testing.T) {
	t.Parallel()
	for path, p := range map[string][]byte{"/seg/": smallPut, "/tmp/": largePut} {
		f := &fault{err: syscall.EIO, kinds: []errorfs.OpKind{errorfs.OpFileSyncData}, path: path}
		s, _, _, kept := faulty(t, f)
		f.on.Store(true)
		if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
		storetest.Want(t, s.Flush(t.Context()), status.NotReady)
		f.on.Store(false)
		for range 3 {
			storetest.Want(t, s.Flush(t.Context()), status.NotReady)
		}
		for _, p := range kept {
			storetest.Holds(t, s, p)
		}
	}
}

// TestFlushesMeet: a flush returns only when what was deferred before it is
// visible, also where another flush has taken it along.
func TestFlushesMeet(t *testing.T) {
	t.Parallel()
	for path, p := range map[string][]byte{"/seg/": smallPut, "/tmp/": largePut} {
		reached, release := make(chan struct{}), make(chan struct{})
		var on atomic.Bool
		injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSyncData && strings.Contains(op.Path, path) && on.Swap(false) {
				close(reached)
				<-release
			}
			return nil
		})
		s, _ := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(vfs.NewMem(), injector)})
		if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
		on.Store(true)
		ended := make(chan error, 2)
		flush := func() {
			err := s.Flush(t.Context())
			if err == nil {
				_, err = s.Stat(t.Context(), b3.Sum(p))
			}
			ended <- err
		}
		go flush()
		<-reached
		go flush()
		for range 1000 {
			runtime.Gosched() // a flush that does not wait has every chance to end
		}
		close(release)
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestReserve: below the reserve writes are refused before they touch the disk.
func TestReserve(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk})
	storetest.Put(t, s, smallPut)
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 64<<20 + 100, TotalBytes: 1 << 30})
	for _, p := range [][]byte{storetest.Bytes(1, 1000), largePut} {
		_, err := s.PutBytes(t.Context(), p, store.PutOptions{})
		storetest.Want(t, err, status.NoSpace)
	}
	_, err := s.Ingest(t.Context(), b3.Sum(largePut), int64(len(largePut)))
	storetest.Want(t, err, status.NoSpace)
	storetest.Holds(t, s, smallPut)
	if err := s.Delete(t.Context(), b3.Sum(smallPut)); err != nil {
		t.Fatalf("delete, which makes space: %v", err)
	}
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 30})
	storetest.Put(t, s, largePut)
	storetest.Put(t, s, storetest.Bytes(1, 1000))
}

// TestReadFault: a disk that cannot read is no verdict on the object.
func TestReadFault(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/seg/", "/obj/", ".ob"} {
		f := &fault{err: syscall.EIO, kinds: []errorfs.OpKind{errorfs.OpFileReadAt}, path: path}
		s, _, _, kept := faulty(t, f)
		f.on.Store(true)
		failed := 0
		for _, p := range kept {
			if _, err := storetest.Get(t, s, b3.Sum(p)); err != nil {
				storetest.Want(t, err, status.Corrupt)
				failed++
			}
		}
		if failed != 1 {
			t.Fatalf("%s: %d objects failed", path, failed)
		}
		f.on.Store(false)
		for _, p := range kept {
			storetest.Holds(t, s, p)
		}
		if n := s.Stats().Corrupt; n != 0 {
			t.Errorf("%s: %d objects are marked", path, n)
		}
	}
}

// TestFullDiskAtEveryWrite runs the script once for each write it makes, with
// that write and all that follow failing for a while: whatever was acknowledged
// is there, then and after a restart.
func TestFullDiskAtEveryWrite(t *testing.T) {
	t.Parallel()
	for first := int64(0); ; first += int64(4 * every(1)) {
		disk := vfs.NewMem()
		var writes atomic.Int64
		var on atomic.Bool
		injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
			data := op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpRename
			if !on.Load() || !data || strings.Contains(op.Path, "/index") {
				return nil
			}
			// A rename that fails is undone, which is one more.
			if n := writes.Add(1) - 1; n == first || n > first && n < first+4 && op.Kind != errorfs.OpRename {
				return fmt.Errorf("write %d: %w", n, syscall.ENOSPC)
			}
			return nil
		})
		s, stop := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, injector)})
		on.Store(true)
		l := newLedger()
		script(t, s, l)
		on.Store(false)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatalf("writes from %d on: flush: %v", first, err)
		}
		if err := l.check(t, s); err != nil {
			t.Fatalf("writes from %d on: %v", first, err)
		}
		if err := stop(); err != nil {
			t.Fatalf("writes from %d on: stop: %v", first, err)
		}
		if err := reopen(t, disk, l); err != nil {
			t.Fatalf("writes from %d on: after a restart: %v", first, err)
		}
		if writes.Load() < first {
			t.Logf("%d writes", writes.Load())
			return
		}
	}
}
