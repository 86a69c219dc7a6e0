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

// crashPoint says whether to crash before op, the nth one, with half of what was
// not synced on disk, and whether with nothing of it too. That was the same
// since the last sync, so it is looked at before a sync, when most is
// acknowledged. Short runs look at each 8th point, and at both there.
func crashPoint(n int, op errorfs.Op) (look, nothing bool) {
	if testing.Short() {
		return n%8 == 0, true
	}
	return true, op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

// crashEverywhere takes the power away before every write, sync, rename and
// unlink of the script, with half of what was not synced on disk and, where that
// differs, with nothing of it, and has the ledger of that moment check what is
// left.
func crashEverywhere[L crashLedger[L]](t *testing.T, rng *rand.Rand, l L, script func(*store.Store)) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	type crash struct {
		fs *vfs.MemFS
		l  L
		at string
	}
	crashes := make(chan crash)
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
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead || op.Kind == errorfs.OpMkdirAll || op.Kind == errorfs.OpFileClose {
			return nil
		}
		serial.Lock()
		defer serial.Unlock()
		points++
		look, nothing := crashPoint(points, op)
		if !look {
			return nil
		}
		at, known := fmt.Sprintf("op %d of %s", op.Kind, op.Path), l.copy()
		if nothing {
			crashes <- crash{disk.CrashClone(vfs.CrashCloneCfg{}), known, at + ", nothing unsynced"}
		}
		crashes <- crash{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), known, at + ", half of the unsynced"}
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
