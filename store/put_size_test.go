package store_test

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// unread fails the test when somebody reads it.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the data was read")
	return 0, nil
}

// TestPutSize: what cannot fit is refused before the first byte is read, and
// nothing stays reserved; what is said of the size binds nobody.
func TestPutSize(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		cfg.MaxBytes, cfg.Quotas = 1<<20, []string{"a=300KiB"}
		disk := vfs.NewMem()
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		defer stop()
		refused := func(opt store.PutOptions, want status.Outcome) {
			t.Helper()
			before := s.Collector().Space().Used
			_, err := s.Put(t.Context(), unread{t}, opt)
			storetest.Want(t, err, want)
			if used := s.Collector().Space().Used; used.Bytes > before.Bytes { // an eviction may have been tried
				t.Errorf("%+v is used, %+v was", used, before)
			}
		}
		refused(store.PutOptions{Size: 2 << 20}, status.NoSpace)
		refused(store.PutOptions{Size: b3.MaxSize + 1}, status.BodyCap)
		c := s.Quotas().Charge("a")
		defer c.Release()
		refused(store.PutOptions{Size: 301 << 10, Charge: c}, status.Quota)
		refused(store.PutOptions{Size: 2 << 20, Charge: c}, status.Quota)
		for i, size := range []int64{1, 200 << 10, 300 << 10, 900 << 10} {
			p := storetest.Bytes(uint64(i), 200<<10+i)
			if _, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{Size: size}); err != nil {
				t.Fatalf("put of %d bytes that are said to be %d: %v", len(p), size, err)
			}
			storetest.Holds(t, s, p)
		}
		if cfg.Backend != store.BackendEmbedded {
			return
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(cfg.ReserveBytes) + 100<<10, TotalBytes: 1 << 30})
		refused(store.PutOptions{Size: 200 << 10}, status.NoSpace)
	})
}
