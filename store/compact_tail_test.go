package store_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// TestTailIsCompacted: a segment that is not full, and will not be, gives the
// space of what was removed from it back; once, and not while it fills.
func TestTailIsCompacted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		cfg := tiny()
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		content := func(i int) []byte { return storetest.Bytes(uint64(i), 10_000+i) }
		l := newLedger()
		put := func(i int) {
			l.object(content(i), present)
			storetest.Put(t, s, content(i))
		}
		remove := func(i int) {
			if err := s.Delete(t.Context(), b3.Sum(content(i))); err != nil {
				t.Fatal(err)
			}
			l.object(content(i), absent)
		}
		for i := range 40 { // in one segment
			put(i)
		}
		if n := s.Stats().Usage.Segments; n != 1 {
			t.Fatalf("%d segments", n)
		}
		for i := range 6 { // too little to be worth it
			remove(i)
		}
		time.Sleep(time.Hour)
		if n := s.Stats().Usage.Compactions; n != 0 {
			t.Errorf("%d compactions for little", n)
		}
		for i := 6; i < 37; i++ {
			remove(i)
		}
		next := 40
		for ; next < 49; next++ { // it fills on, so it is left alone
			time.Sleep(10 * time.Second)
			put(next)
			remove(next)
		}
		if n := s.Stats().Usage.Compactions; n != 0 {
			t.Errorf("%d compactions of a segment that fills", n)
		}
		time.Sleep(10 * time.Minute)
		u := s.Stats().Usage
		if u.Compactions != 1 || u.SegmentBytes-u.SpareBytes > 200_000 { // zeros ahead among them
			t.Fatalf("%d bytes on disk, %+v", segmentBytes(t, disk), u)
		}
		time.Sleep(24 * time.Hour)
		if n := s.Stats().Usage.Compactions; n != 1 {
			t.Errorf("%d compactions in a day without a change", n)
		}
		if err := l.check(t, s); err != nil {
			t.Error(err)
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 2))})
		if err := reopen(t, crashed, l); err != nil {
			t.Errorf("after a crash: %v", err)
		}
		put(next)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := reopen(t, disk, l); err != nil {
			t.Errorf("after a stop: %v", err)
		}
	})
}
