package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestCompactionFaults fails every write, creation and rename, and every read, of
// a segment once, with those that follow it, while nine of ten objects go,
// their space is given back and the files are used again: nothing is lost, and
// the space comes back once the disk is well.
func TestCompactionFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		err   error
		kinds []errorfs.OpKind
	}{
		{"full", syscall.ENOSPC, []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpCreate,
			errorfs.OpRename}},
		{"read", syscall.EIO, []errorfs.OpKind{errorfs.OpFileRead, errorfs.OpFileReadAt, errorfs.OpOpen}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			met, step := 0, int64(1)
			if testing.Short() {
				step = 4
				if errors.Is(test.err, syscall.ENOSPC) { // there are hundreds
					step = 28
				}
			}
			for first := int64(0); ; first += step {
				var n int64
				synctest.Test(t, func(t *testing.T) { n = compactFaulty(t, test.err, test.kinds, first) })
				if t.Failed() {
					t.Fatalf("operations from %d on failed", first)
				}
				if n <= first {
					break
				}
				met++
			}
			if met*int(step) < 10 {
				t.Fatalf("only %d faults were met", met)
			}
			t.Logf("%d faults", met)
		})
	}
}

// compactFaulty runs one case, in which three operations from first on fail, and
// returns how many there were.
func compactFaulty(t *testing.T, fault error, kinds []errorfs.OpKind, first int64) int64 {
	disk := vfs.NewMem()
	var on atomic.Bool
	var ops atomic.Int64
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !on.Load() || !strings.Contains(op.Path, "/seg/") {
			return nil
		}
		for _, k := range kinds {
			if op.Kind != k {
				continue
			}
			if n := ops.Add(1) - 1; n >= first && n < first+3 {
				return fmt.Errorf("operation %d: %w", n, fault)
			}
		}
		return nil
	})
	cfg := tiny()
	cfg.HotBytes = 0
	s, stop := storetest.Start(t, cfg, store.Deps{FS: errorfs.Wrap(disk, injector)})
	const n = 40
	content := func(i int) []byte { return storetest.Bytes(uint64(i), 30_000+i) }
	l := newLedger()
	for i := range n {
		l.object(content(i), present)
		storetest.Put(t, s, content(i))
	}
	kept := b3.Sum(content(0))
	if err := s.Pin(t.Context(), kept, store.PinOptions{Label: "kept"}); err != nil {
		t.Fatal(err)
	}
	l.pin(kept, present)
	again := func(what string, f func() error) {
		for range 5 {
			err := f()
			if err == nil {
				return
			}
			if !errors.Is(err, fault) {
				t.Fatalf("%s: %v", what, err)
			}
		}
		t.Fatalf("%s fails for good", what)
	}
	on.Store(true)
	for i := range n {
		if i%10 != 0 {
			again("delete", func() error { return s.Delete(t.Context(), b3.Sum(content(i))) })
			l.object(content(i), absent)
		}
	}
	testkit.Eventually(t, "space is given back", func() bool {
		u := s.Stats().Usage
		return u.Compactions > 0 && u.SegmentBytes <= 4*int64(cfg.SegmentBytes)
	})
	for i := n; i < 2*n; i++ { // into spare files
		again("put", func() error {
			_, err := s.PutBytes(t.Context(), content(i), store.PutOptions{})
			return err
		})
		l.object(content(i), present)
	}
	on.Store(false)
	if err := l.check(t, s); err != nil {
		t.Error(err)
	}
	if err := s.Stats().WriteErr; err != nil {
		t.Errorf("nothing is written any more: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := reopen(t, disk, l); err != nil {
		t.Error(err)
	}
	return ops.Load()
}

// TestRemoveWhenFull: while puts are refused for want of space, and a deferred one
// waits for some, objects and pins go, and segments are compacted into what is
// left of the reserve, their files given back and not kept.
func TestRemoveWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		cfg := tiny()
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		const n = 60
		content := func(i int) []byte { return storetest.Bytes(uint64(i), 30_000+i) }
		l := newLedger()
		for i := range n {
			l.object(content(i), present)
			storetest.Put(t, s, content(i))
		}
		pinned := b3.Sum(content(5))
		if err := s.Pin(t.Context(), pinned, store.PinOptions{Label: "x"}); err != nil {
			t.Fatal(err)
		}
		waiting := storetest.Bytes(1000, 20_000)
		if _, err := s.PutBytes(t.Context(), waiting, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
		before := s.Stats().Usage.SegmentBytes
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(cfg.ReserveBytes) + 100, TotalBytes: 1 << 30})
		storetest.Want(t, s.Flush(t.Context()), status.NoSpace)
		if err := s.Unpin(t.Context(), pinned, "x"); err != nil {
			t.Errorf("unpin: %v", err)
		}
		l.pin(pinned, absent)
		for i := range n {
			if i%10 == 0 {
				continue
			}
			if err := s.Delete(t.Context(), b3.Sum(content(i))); err != nil {
				t.Fatalf("delete: %v", err)
			}
			l.object(content(i), absent)
		}
		testkit.Eventually(t, "space is given back", func() bool { return s.Stats().Usage.SegmentBytes <= before/2 })
		if u := s.Stats().Usage; u.Compactions == 0 || u.Spares != 0 {
			t.Errorf("%d compactions, %d spare files", u.Compactions, u.Spares)
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 30})
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.object(waiting, present)
		if err := l.check(t, s); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := reopen(t, disk, l); err != nil {
			t.Error(err)
		}
	})
}

// TestDoubtfulRemoval: when the sync of a removal fails, nobody is told that the
// object is there, nor that it is not, until a start has found out.
func TestDoubtfulRemoval(t *testing.T) {
	t.Parallel()
	f := &fault{err: syscall.EIO, kinds: []errorfs.OpKind{errorfs.OpFileSyncData}, path: "/seg/"}
	s, stop, disk, kept := faulty(t, f)
	gone := storetest.Bytes(50, 900)
	storetest.Put(t, s, gone)
	root := b3.Sum(gone)
	f.on.Store(true)
	storetest.Want(t, s.Delete(t.Context(), root), status.NotReady)
	f.on.Store(false)
	for range 2 {
		_, err := s.Open(t.Context(), root)
		storetest.Want(t, err, status.NotReady)
		_, err = s.Has(t.Context(), []b3.Root{root})
		storetest.Want(t, err, status.NotReady)
		_, err = s.PutBytes(t.Context(), gone, store.PutOptions{})
		storetest.Want(t, err, status.NotReady)
		storetest.Want(t, s.Delete(t.Context(), root), status.NotReady)
	}
	for _, p := range kept {
		storetest.Holds(t, s, p)
	}
	if s.Stats().WriteErr == nil {
		t.Error("the failure is not sticky")
	}
	if err := stop(); err == nil {
		t.Error("stop says that all is well")
	}
	s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
	if _, err := s.Open(t.Context(), root); status.Of(err) != status.NotFound { // the write itself came through
		t.Errorf("after a restart: %v", err)
	}
	for _, p := range kept {
		storetest.Holds(t, s, p)
	}
	storetest.Put(t, s, gone)
	storetest.Holds(t, s, gone)
}
