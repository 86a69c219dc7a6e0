package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestRebuildCrash takes the power away before every rename, unlink and sync of
// a directory of a rebuild. What is left opens with all that was there, or says
// to run the rebuild, which then brings it all back.
func TestRebuildCrash(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
	c := furnish(t, s)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	type crash struct {
		fs *vfs.MemFS
		at string
	}
	var mu sync.Mutex
	var crashes []crash
	rng := rand.New(rand.NewPCG(3, 4))
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpRename, errorfs.OpRemove, errorfs.OpRemoveAll:
		case errorfs.OpFileSync, errorfs.OpFileSyncData:
			if op.Path != "/store" && op.Path != "/store/" {
				return nil
			}
		default:
			return nil
		}
		if strings.Contains(op.Path, "/obj/") || strings.Contains(op.Path, "/tmp/") {
			return nil // an outboard like all others
		}
		mu.Lock()
		defer mu.Unlock()
		at := fmt.Sprintf("op %d of %s", op.Kind, op.Path)
		crashes = append(crashes, crash{disk.CrashClone(vfs.CrashCloneCfg{}), at + ", nothing unsynced"},
			crash{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), at + ", half of the unsynced"})
		return nil
	})
	rebuilt(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, injector)})
	crashes = append(crashes, crash{disk.CrashClone(vfs.CrashCloneCfg{}), "the end"})
	refused := 0
	for _, x := range crashes {
		deps := store.Deps{FS: x.fs}
		s, stop, err := storetest.Try(t, tiny(), deps)
		if err != nil {
			if refused++; status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "allium store rebuild") {
				t.Errorf("crash before %s: %v", x.at, err)
			}
			rebuilt(t, tiny(), deps)
			s, stop = storetest.Start(t, tiny(), deps)
		}
		c.check(t, s)
		if err := stop(); err != nil {
			t.Errorf("crash before %s: stop: %v", x.at, err)
		}
		if t.Failed() {
			t.Fatalf("crash before %s", x.at)
		}
	}
	t.Logf("%d crashes, %d of them had to be rebuilt again", len(crashes), refused)
	if len(crashes) < 9 {
		t.Error("the rebuild met too few crash points to mean anything")
	}
}
