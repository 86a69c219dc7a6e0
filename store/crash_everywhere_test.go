package store_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/store"
	"allium/store/storetest"
)

// crashLedger knows what a store has acknowledged.
type crashLedger[L any] interface {
	copy() L
	check(t testing.TB, disk vfs.FS) error // opens what is on disk
}

// crash is a disk as a crash leaves it, and what was acknowledged by then.
type crash[L any] struct {
	fs *vfs.MemFS
	l  L
	at string
}

// changesDisk reports whether op changes what a crash leaves, so that one before
// it is worth a look.
func changesDisk(op errorfs.Op) bool {
	return op.Kind.ReadOrWrite() != errorfs.OpIsRead && op.Kind != errorfs.OpMkdirAll && op.Kind != errorfs.OpFileClose
}

// crashesBefore are the crashes to look at before op, the nth that changes disk:
// with half of what was not synced there, and where that differs with nothing of
// it. That was the same since the last sync, so it is looked at before a sync,
// when most is acknowledged. Short runs look at each 8th point, and at both there.
func crashesBefore[L interface{ copy() L }](
	disk *vfs.MemFS, rng *rand.Rand, n int, op errorfs.Op, l L,
) (all []crash[L]) {
	nothing := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	if testing.Short() {
		if n%8 != 0 {
			return nil
		}
		nothing = true
	}
	at, known := fmt.Sprintf("op %d of %s", op.Kind, op.Path), l.copy()
	if nothing {
		all = append(all, crash[L]{disk.CrashClone(vfs.CrashCloneCfg{}), known, at + ", nothing unsynced"})
	}
	half := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
	return append(all, crash[L]{half, known, at + ", half of the unsynced"})
}

// crashEverywhere takes the power away before every write, sync, rename and
// unlink of the script, with half of what was not synced on disk and, where that
// differs, with nothing of it, and has the ledger of that moment check what is
// left.
func crashEverywhere[L crashLedger[L]](t *testing.T, rng *rand.Rand, l L, script func(*store.Store)) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	crashes := make(chan crash[L])
	var wg sync.WaitGroup
	n, points := 0, 0
	wg.Go(func() {
		for c := range crashes {
			n++
			if err := c.l.check(t, c.fs); err != nil {
				t.Errorf("crash before %s: %v", c.at, err)
			}
		}
	})
	var serial sync.Mutex
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !changesDisk(op) {
			return nil
		}
		serial.Lock()
		defer serial.Unlock()
		points++
		for _, c := range crashesBefore(disk, rng, points, op, l) {
			crashes <- c
		}
		return nil
	})
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, injector)})
	script(s)
	if err := stop(); err != nil {
		t.Error(err)
	}
	close(crashes)
	wg.Wait()
	if err := l.check(t, disk.CrashClone(vfs.CrashCloneCfg{})); err != nil {
		t.Errorf("after an orderly stop: %v", err)
	}
	t.Logf("%d crashes at %d points", n, points)
	if points < 100 {
		t.Error("the script met too few crash points to mean anything")
	}
}
