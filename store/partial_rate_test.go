package store_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// atSync calls do before each sync of a file of a part, which fails with its
// error.
type atSync struct{ do atomic.Pointer[func() error] }

func (a *atSync) String() string { return "sync of a part" }

func (a *atSync) MaybeError(op errorfs.Op) error {
	if do := a.do.Load(); do != nil && op.Kind == errorfs.OpFileSyncData && strings.Contains(op.Path, "/part/") {
		return (*do)()
	}
	return nil
}

// feed writes what a walk over r gives, to the first error.
func feed(in *store.Ingest, src b3.Source, size int64, r b3.Range) error {
	w, err := b3.NewWalk(in.Root(), size, []b3.Range{r})
	if err != nil {
		return err
	}
	buf := make([]byte, b3.GroupSize)
	for {
		item, err := w.Fill(src, buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = in.Write(item)
		}
		if err != nil {
			return err
		}
	}
}

// fastSize is the size of a download whose writers have to wait.
const fastSize = 96 << 20

// startFast begins the download of zeros, whose size is noted, in a store on
// disk.
func startFast(t *testing.T, disk vfs.FS) (in *store.Ingest, src b3.Source, s *store.Store) {
	t.Helper()
	p := make([]byte, fastSize)
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 2)
	if _, err := h.Write(p); err != nil {
		t.Fatal(err)
	}
	root, _, err := h.Sum()
	if err != nil {
		t.Fatal(err)
	}
	src = b3.FileSource(bytes.NewReader(p), bytes.NewReader(outboard.Bytes()), fastSize)
	s, stop := storetest.Start(t, embedded("/store"), store.Deps{FS: disk})
	t.Cleanup(func() { _ = stop() })
	for range 2 { // what follows the first is noted by its bytes alone
		if in != nil {
			in.Suspend()
		}
		if in, err = s.Ingest(t.Context(), root, fastSize); err != nil {
			t.Fatal(err)
		}
		if err := feed(in, src, fastSize, b3.Range{Start: fastSize - group, End: fastSize}); err != nil {
			t.Fatal(err)
		}
	}
	return in, src, s
}

// TestCrashFastDownload takes the power away while a sync of a download stands
// still and its writers are as far as they get: what a restart finds is at most
// 64 MiB behind them.
func TestCrashFastDownload(t *testing.T) {
	if testing.Short() {
		t.Skip("TestKillDownload has the same goroutines")
	}
	t.Parallel()
	const (
		most    = 64 << 20
		writers = 4
	)
	disk, gate := vfs.NewCrashableMem(), &atSync{}
	in, src, s := startFast(t, errorfs.Wrap(disk, gate))
	var active atomic.Int64
	var once sync.Once
	var crashed *vfs.MemFS
	var held int64
	stand := func() error {
		if in.Held() < 16<<20 {
			return nil // the first bytes are noted at once
		}
		once.Do(func() {
			for s.Stats().PartialWaits < active.Load() { // some may have ended
				time.Sleep(time.Millisecond)
			}
			held = in.Held()
			crashed = disk.CrashClone(vfs.CrashCloneCfg{})
		})
		return nil
	}
	active.Store(writers)
	gate.do.Store(&stand)
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range int64(writers) {
		all.Go(func() {
			defer active.Add(-1)
			errs[i] = feed(in, src, fastSize,
				b3.Range{Start: i * fastSize / writers, End: (i + 1) * fastSize / writers})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Commit(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	again, stop := storetest.Start(t, embedded("/store"), store.Deps{FS: crashed})
	defer func() { _ = stop() }()
	info, err := again.Partials().Get(t.Context(), in.Root())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB had come, %d KiB are there after a crash", held>>10, info.Stored>>10)
	if info.Stored > held || held-info.Stored > most {
		t.Errorf("a crash costs %d KiB, not at most %d KiB", (held-info.Stored)>>10, int64(most)>>10)
	}
}

// TestPartialWaitFails says to a writer that waits for a checkpoint that it
// failed.
func TestPartialWaitFails(t *testing.T) {
	if testing.Short() {
		t.Skip("TestCrashFastDownload has the same goroutines")
	}
	t.Parallel()
	gate := &atSync{}
	in, src, s := startFast(t, errorfs.Wrap(vfs.NewMem(), gate))
	var done atomic.Bool
	fail := func() error {
		for s.Stats().PartialWaits == 0 && !done.Load() {
			time.Sleep(time.Millisecond)
		}
		return syscall.EIO
	}
	gate.do.Store(&fail)
	err := feed(in, src, fastSize, b3.Range{End: fastSize})
	done.Store(true)
	storetest.Want(t, err, status.NotReady)
	if held := in.Held(); held > 65<<20 {
		t.Errorf("%d KiB were taken while nothing could be noted", held>>10)
	}
	in.Suspend()
}
