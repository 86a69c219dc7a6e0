package store_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestUploadOutlivesAWrongClock: nothing is removed for its age, or said to be
// gone, while the clock is not known to be right.
func TestUploadOutlivesAWrongClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := tiny()
		cfg.Backend, cfg.UploadTTL = store.BackendMemory, time.Hour
		var right atomic.Bool
		s, stop := storetest.Start(t, cfg, store.Deps{MayExpire: right.Load})
		defer stop()
		u := storetest.Begin(t, s, meta.UploadOptions{Length: 100})
		storetest.Append(t, s, u, storetest.Bytes(1, 100), 0, 10)
		time.Sleep(25 * time.Hour)
		if got, err := s.Uploads().Get(t.Context(), u.ID); err != nil || got.Offset != 10 {
			t.Errorf("%+v, %v", got, err)
		}
		right.Store(true)
		time.Sleep(time.Minute)
		_, err := s.Uploads().Get(t.Context(), u.ID)
		storetest.Want(t, err, status.Gone)
		storetest.WantUploads(t, s, 0, 0)
	})
}
