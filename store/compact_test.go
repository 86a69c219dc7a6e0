package store_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// segmentBytes is what the files in seg/ hold on disk.
func segmentBytes(t testing.TB, disk vfs.FS) (n int64) {
	t.Helper()
	names, err := disk.List("/store/seg")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := disk.Stat("/store/seg/" + name); err == nil { // else retired meanwhile
			n += info.Size()
		}
	}
	return n
}

// TestCompaction deletes nine of ten small objects and crashes before every
// write, sync, rename and unlink while their space is given back.
func TestCompaction(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	l := newLedger()
	var mu sync.Mutex
	var crashes []storetest.Crash[*ledger]
	rng := rand.New(rand.NewPCG(3, 4))
	on, points := false, 0
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !storetest.ChangesDisk(op) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !on || points == 200 {
			return nil
		}
		if points++; points%every(1) != 0 {
			return nil
		}
		crashes = append(crashes, storetest.CrashesBefore(disk, rng, points, op, l)...)
		return nil
	})
	cfg := tiny()
	cfg.CompactRate = 1 << 40
	s, stop := storetest.Start(t, cfg, store.Deps{FS: errorfs.Wrap(disk, injector)})
	const n = 60
	content := func(i int) []byte { return storetest.Bytes(uint64(i), 30_000+i) }
	for i := range n {
		l.object(content(i), present)
		storetest.Put(t, s, content(i))
	}
	kept := b3.Sum(content(0))
	if err := s.Pin(t.Context(), kept, store.PinOptions{Label: "kept"}); err != nil {
		t.Fatal(err)
	}
	l.pin(kept, present)
	full := segmentBytes(t, disk)
	mu.Lock()
	on = true
	mu.Unlock()
	for i := range n {
		if i%10 == 0 {
			continue
		}
		l.object(content(i), unknown)
		if err := s.Delete(t.Context(), b3.Sum(content(i))); err != nil {
			t.Fatal(err)
		}
		l.object(content(i), absent)
	}
	testkit.Eventually(t, "space is given back", func() bool {
		u := s.Stats().Usage
		return u.Compactions > 0 && u.SegmentBytes <= 4*int64(cfg.SegmentBytes) &&
			segmentBytes(t, disk) <= 4*int64(cfg.SegmentBytes)
	})
	mu.Lock()
	on = false
	mu.Unlock()
	if err := l.check(t, s); err != nil {
		t.Error(err)
	}
	// Spare files are used again.
	for i := n; i < 2*n; i++ {
		l.object(content(i), present)
		storetest.Put(t, s, content(i))
	}
	if err := l.check(t, s); err != nil {
		t.Error(err)
	}
	u := s.Stats().Usage
	t.Logf("%d bytes became %d; %+v; %d crashes", full, segmentBytes(t, disk), u, len(crashes))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if points < 50 {
		t.Errorf("only %d crash points", points)
	}
	for i, c := range crashes {
		if err := reopen(t, c.FS, c.Ledger); err != nil {
			t.Errorf("crash before %s: %v", c.At, err)
		}
		crashes[i] = storetest.Crash[*ledger]{} // it was looked at
	}
	if err := reopen(t, disk.CrashClone(vfs.CrashCloneCfg{}), l); err != nil {
		t.Errorf("after an orderly stop: %v", err)
	}
}
