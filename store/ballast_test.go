package store_test

import (
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

// TestRemovesFromBallast: on a full disk a removal takes of the ballast what it
// has to write, in the log and in the index; the bytes of an object do not.
func TestRemovesFromBallast(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40})
	var full atomic.Bool
	var most atomic.Int64 // files of the ballast with which there is no space
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if k := op.Kind; !full.Load() || k != errorfs.OpFileWrite &&
			k != errorfs.OpFileWriteAt && k != errorfs.OpCreate {
			return nil
		}
		if names, _ := disk.List("/store/ballast"); int64(len(names)) > most.Load() ||
			strings.Contains(op.Path, "/tmp/") {
			return syscall.ENOSPC
		}
		return nil
	})
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, injector)})
	for s.Stats().Usage.BallastBytes < 4<<20 {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	small, large := storetest.Put(t, s, smallPut), storetest.Put(t, s, largePut)
	full.Store(true)
	most.Store(3)
	_, err := s.PutBytes(t.Context(), storetest.Bytes(77, 3*b3.GroupSize), store.PutOptions{})
	storetest.Want(t, err, status.NoSpace)
	if n := s.Stats().Usage.BallastBytes; n < 4<<20 {
		t.Errorf("a put used the ballast up: %d bytes are left", n)
	}
	for i, root := range []b3.Root{small, large} {
		most.Store(int64(3 - i))
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if n, want := s.Stats().Usage.BallastBytes, int64(3-i)<<20; n > want {
			t.Errorf("%d bytes of the ballast are left, want %d", n, want)
		}
	}
	full.Store(false)
	storetest.Put(t, s, largePut)
	if err := stop(); err != nil {
		t.Error(err)
	}
}
