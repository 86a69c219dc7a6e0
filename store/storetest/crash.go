package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/store"
)

// leastPoints is the minimum number of operations that a script has to make for CrashEverywhere.
const leastPoints = 100

// Ledger knows what a store has acknowledged.
type Ledger[L any] interface {
	Copy() L
	Check(t testing.TB, disk vfs.FS) error // opens what is on disk
}

// Crash is a disk as a crash leaves it, and what was acknowledged by then.
type Crash[L any] struct {
	FS     *vfs.MemFS
	Ledger L
	At     string // which operation did not begin, and what of the others is left
}

// ChangesDisk reports whether op changes what a crash leaves, so that one before
// it is worth a look.
func ChangesDisk(op errorfs.Op) bool {
	return op.Kind.ReadOrWrite() != errorfs.OpIsRead && op.Kind != errorfs.OpMkdirAll && op.Kind != errorfs.OpFileClose
}

// CrashesBefore are the crashes to look at before op, the nth that changes disk:
// with half of what was not synced there, and where that differs with nothing of
// it. That was the same since the last sync, so it is looked at before a sync,
// when most is acknowledged. Short runs look at each 8th point, and at both there.
func CrashesBefore[L interface{ Copy() L }](
	disk *vfs.MemFS, rng *rand.Rand, n int, op errorfs.Op, l L,
) (all []Crash[L]) {
	nothing := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	if testing.Short() {
		if n%8 != 0 {
			return nil
		}
		nothing = true
	}
	at, known := fmt.Sprintf("op %d of %s", op.Kind, op.Path), l.Copy()
	if nothing {
		all = append(all, Crash[L]{disk.CrashClone(vfs.CrashCloneCfg{}), known, at + ", nothing unsynced"})
	}
	half := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
	return append(all, Crash[L]{half, known, at + ", half of the unsynced"})
}

// CrashEverywhere takes the power away before every write, sync, rename and
// unlink of the script, with half of what was not synced on disk and, where that
// differs, with nothing of it, and has the ledger of that moment check what is
// left. The script runs with a store of cfg.
func CrashEverywhere[L Ledger[L]](
	t *testing.T, cfg store.Config, rng *rand.Rand, l L, script func(*store.Store),
) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	crashes := make(chan Crash[L])
	var wg sync.WaitGroup
	n, points := 0, 0
	wg.Go(func() {
		for c := range crashes {
			n++
			if err := c.Ledger.Check(t, c.FS); err != nil {
				t.Errorf("crash before %s: %v", c.At, err)
			}
		}
	})
	// lock: held across I/O, waits and calls, because the points of a crash are numbered in the order of
	// the changes
	var serial sync.Mutex // lock: leaf
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !ChangesDisk(op) {
			return nil
		}
		serial.Lock()
		defer serial.Unlock()
		points++
		for _, c := range CrashesBefore(disk, rng, points, op, l) {
			crashes <- c
		}
		return nil
	})
	s, stop := Start(t, cfg, store.Deps{FS: errorfs.Wrap(disk, injector)})
	script(s)
	if err := stop(); err != nil {
		t.Error(err)
	}
	close(crashes)
	wg.Wait()
	if err := l.Check(t, disk.CrashClone(vfs.CrashCloneCfg{})); err != nil {
		t.Errorf("after an orderly stop: %v", err)
	}
	t.Logf("%d crashes at %d points", n, points)
	if points < leastPoints {
		t.Errorf("the script met %d crash points, too few to mean anything", points)
	}
}
