package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestReconfigure: a smaller bound evicts what is only cache and refuses what does not fit beside pins, a larger
// one lets it in again; uploads that are begun later live as long as the reload says.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := tiny()
		s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
		pinned := storetest.Put(t, s, storetest.Bytes(1, 3<<20))
		if err := s.Pin(t.Context(), pinned, store.PinOptions{}); err != nil {
			t.Fatal(err)
		}
		storetest.Put(t, s, storetest.Bytes(2, 3<<20))
		cfg.MaxBytes, cfg.GCDuty = 4<<20, 1
		s.Reconfigure(cfg)
		time.Sleep(time.Minute)
		if used := s.Collector().Space().Used.Objects; used != 1 {
			t.Errorf("%d objects are left", used)
		}
		_, err := s.PutBytes(t.Context(), storetest.Bytes(3, 2<<20), store.PutOptions{})
		storetest.Want(t, err, status.NoSpace)
		cfg.MaxBytes = 0
		s.Reconfigure(cfg)
		storetest.Put(t, s, storetest.Bytes(3, 2<<20))
		cfg.UploadTTL = time.Hour
		s.Reconfigure(cfg)
		u := storetest.Begin(t, s, meta.UploadOptions{Length: 100})
		time.Sleep(2 * time.Hour)
		_, err = s.Uploads().Get(t.Context(), u.ID)
		storetest.Want(t, err, status.Gone)
	})
}
